"""The API kinds of kueue.x-k8s.io as Sluice serves them: one compact description a kind, for both versions.

A schema is built from small functions: string(), integer(), boolean(), quantity(), obj(), array() and map_of(). In obj() a name that ends in "!" is required. Only
what the contract fixes is here; how it is rendered is in gen_crds.py. docs/decisions/crd-cost.md says which rules live in the webhooks instead.
"""

SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
KIND = r"^(?i)[a-z]([-a-z0-9]*[a-z0-9])?$"
LABEL_KEY = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
QUANTITY = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
REASON = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
EFFECTS = "['NoSchedule', 'PreferNoSchedule', 'NoExecute']"


# --- building blocks -------------------------------------------------------------------------------------------------------

def _schema(type_, desc, kw):
    s = {"type": type_} if type_ else {}
    if desc:
        s["description"] = desc
    rules = kw.pop("rules", None)
    for k, v in kw.items():
        if v is not None:
            s[k] = v
    if rules:
        s["x-kubernetes-validations"] = [dict(zip(("rule", "message"), r)) for r in rules]
    return s


def string(desc=None, **kw):
    return _schema("string", desc, kw)


def boolean(desc=None, **kw):
    return _schema("boolean", desc, kw)


def integer(desc=None, bits=32, **kw):
    return _schema("integer", desc, {"format": f"int{bits}", **kw})


def quantity(desc=None, **kw):
    s = {"x-kubernetes-int-or-string": True, "pattern": QUANTITY}
    if desc:
        s["description"] = desc
    s.update(kw)
    return s


def obj(desc, props, **kw):
    s = _schema("object", desc, kw)
    required = [k[:-1] for k in props if k.endswith("!")]
    if required:
        s["required"] = sorted(required)
    s["properties"] = {k.rstrip("!"): v for k, v in props.items() if v is not None}
    return s


def map_of(desc, values, **kw):
    s = _schema("object", desc, kw)
    s["additionalProperties"] = values
    return s


def array(desc, items, keys=None, list_type=None, **kw):
    s = _schema("array", desc, kw)
    if keys:
        s["x-kubernetes-list-type"] = "map"
        s["x-kubernetes-list-map-keys"] = keys
    elif list_type:
        s["x-kubernetes-list-type"] = list_type
    s["items"] = items
    return s


# --- shared pieces ---------------------------------------------------------------------------------------------------------

def name_ref(desc=None, **kw):
    return string(desc, maxLength=253, pattern=SUBDOMAIN, **kw)


def pod_set_name(desc="Name of the pod set.", **kw):
    return string(desc, maxLength=63, pattern=LABEL, **kw)


def check_name(v, desc="Name of the AdmissionCheck."):
    return string(desc, minLength=1 if v == 2 else None, maxLength=316)


def conditions(v, desc):
    return array(desc, obj("One observation.", {
        "type!": string("What is observed, in CamelCase.", maxLength=316, pattern=LABEL_KEY),
        "status!": string("Whether it holds.", enum=["True", "False", "Unknown"]),
        "reason!": string("Why, as one word for programs.", minLength=1, maxLength=1024, pattern=REASON),
        "message!": string("Why, for people.", maxLength=32768),
        "lastTransitionTime!": string("When the status last changed.", format="date-time"),
        "observedGeneration": integer("The generation of the object that this speaks of.", bits=64, minimum=0),
    }), keys=["type"], maxItems=16 if v == 2 else None)


TOLERATION_RULES = [
    ("self.all(t, has(t.key) || (has(t.operator) && t.operator == 'Exists'))", "a toleration without a key must have the operator Exists: it matches every taint"),
    ("self.all(t, !has(t.tolerationSeconds) || (has(t.effect) && t.effect == 'NoExecute'))", "tolerationSeconds needs the effect NoExecute"),
    ("self.all(t, !has(t.operator) || t.operator in ['Equal', 'Exists'])", "operator must be Equal or Exists"),
    ("self.all(t, !has(t.operator) || t.operator != 'Exists' || !has(t.value))", "a toleration with the operator Exists must have no value"),
    (f"self.all(t, !has(t.effect) || t.effect in {EFFECTS})", "effect must be NoSchedule, PreferNoSchedule or NoExecute"),
]


def tolerations(desc, list_type="atomic", rules=None):
    return array(desc, obj("A toleration as in a pod.", {
        "key": string("Key of the taint; none matches every key."),
        "operator": string("Equal (the default) or Exists."),
        "value": string("Value of the taint, for Equal."),
        "effect": string("Effect of the taint; none matches every effect."),
        "tolerationSeconds": integer("How long a NoExecute taint is tolerated.", bits=64),
    }), list_type=list_type, maxItems=8, rules=rules)


def taints(desc, rules=None):
    return array(desc, obj("A taint as on a node.", {
        "key!": string("Key of the taint."),
        "value": string("Value of the taint."),
        "effect!": string("NoSchedule, PreferNoSchedule or NoExecute."),
        "timeAdded": string("When the taint was added.", format="date-time"),
    }), list_type="atomic", maxItems=8, rules=rules)


def selector(desc):
    return obj(desc, {
        "matchLabels": map_of("Labels that must be there with these values.", string()),
        "matchExpressions": array("Conditions that must all hold.", obj("One condition on one label.", {
            "key!": string("Key of the label."),
            "operator!": string("In, NotIn, Exists or DoesNotExist."),
            "values": array("Values for In and NotIn.", string(), list_type="atomic"),
        }), list_type="atomic"),
    }, **{"x-kubernetes-map-type": "atomic"})


def fair_sharing():
    return obj("How unused capacity is divided.", {
        "weight": quantity("Relative claim on what is shared: with twice the weight, twice the share. 0 means to get shared capacity last.", default=1),
    })


def consumed_status():
    return obj("Long-term usage, for admission fair sharing.", {
        "consumedResources!": map_of("Usage by resource, decayed over time.", quantity()),
        "lastUpdate!": string("When this was last computed.", format="date-time"),
    })


def fair_status(consumed):
    return obj("Standing in fair sharing.", {
        "weightedShare!": integer("Use above the own quota as a share of what can be lent, over the weight; higher means further beyond the fair share.", bits=64),
        "admissionFairSharingStatus": consumed_status() if consumed else None,
    })


def usage(desc, borrowed):
    return array(desc, obj("One flavor.", {
        "name!": name_ref("Name of the ResourceFlavor."),
        "resources!": array("By resource.", obj("One resource.", {
            "name!": string("Name of the resource."),
            "total": quantity("All that is used."),
            "borrowed": quantity("The part above the nominal quota, taken from the cohort.") if borrowed else None,
        }), keys=["name"], maxItems=64),
    }), keys=["name"], maxItems=64)


def resource_groups(v, owner, lender, rules):
    return array(f"Quota of the {owner}, in groups of resources that always get the same flavor.", obj("Resources that are assigned together.", {
        "coveredResources!": array("Resources of this group; each belongs to one group only.", string(), list_type="atomic" if v == 2 else None, minItems=1, maxItems=64),
        "flavors!": array("Flavors in order of preference.", obj("Quota on one flavor.", {
            "name!": name_ref("Name of the ResourceFlavor."),
            "resources!": array("Quota by resource, in the order of coveredResources.", obj("Quota for one resource.", {
                "name!": string("Name of the resource."),
                "nominalQuota!": quantity(f"What the {owner} owns."),
                "borrowingLimit": quantity(f"How much more may be used when {lender} has it free. Absent: no limit."),
                "lendingLimit": quantity("How much of the nominal quota others may use while it is free. Absent: all of it."),
            }), keys=["name"], minItems=1, maxItems=64),
        }), keys=["name"], minItems=1, maxItems=64),
    }, rules=rules), list_type="atomic", maxItems=16)


SAME_NUMBER = [("self.flavors.all(f, size(f.resources) == size(self.coveredResources))", "every flavor must list as many resources as coveredResources has")]


# --- kinds -----------------------------------------------------------------------------------------------------------------

def resource_flavor(v):
    def frozen(field):
        return (f"!has(oldSelf.topologyName) || (has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field}))",
                f"{field} is immutable once topologyName is set")
    return {"spec": obj("What distinguishes the hardware.", {
        "nodeLabels": map_of("Labels that the nodes of this flavor carry. Admitted pods get them as nodeSelector.", string(), maxProperties=8, **{"x-kubernetes-map-type": "atomic"}),
        "nodeTaints": taints("Taints of the nodes that a workload has to tolerate to be assigned this flavor.", [
            (f"self.all(t, t.effect in {EFFECTS})", "effect must be NoSchedule, PreferNoSchedule or NoExecute")]),
        "tolerations": tolerations("Tolerations that admitted pods get.", rules=TOLERATION_RULES),
        "topologyName": name_ref("Name of the Topology of these nodes."),
    }, rules=[("!has(self.topologyName) || (has(self.nodeLabels) && size(self.nodeLabels) > 0)", "topologyName needs at least one entry in nodeLabels"),
              frozen("nodeLabels"), frozen("tolerations"), frozen("topologyName")])}


def cluster_queue(v):
    borrow, preempt = ["MayStopSearch", "TryNextFlavor"], ["MayStopSearch", "TryNextFlavor"]
    if v == 1:
        borrow, preempt = borrow + ["Borrow"], preempt + ["Preempt"]
    on_flavors = array("Flavors that the check is for. Empty: all of them.", name_ref(), list_type="set" if v == 2 else None, maxItems=64 if v == 2 else None)
    cohort = name_ref("Name of the cohort: the queues with the same one lend each other unused quota. It need not exist as an object.")
    modes = ["UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"]
    spec = {
        "resourceGroups": resource_groups(v, "ClusterQueue", "the cohort", None),
        ("cohortName" if v == 2 else "cohort"): cohort,
        "queueingStrategy": string("StrictFIFO: nothing overtakes the first one that waits. BestEffortFIFO: what fits may overtake.",
                                   enum=["StrictFIFO", "BestEffortFIFO"], default="BestEffortFIFO"),
        "namespaceSelector": selector("Namespaces whose workloads this queue takes. Absent: none; empty: all."),
        "flavorFungibility": obj("When to look at the next flavor.", {
            "whenCanBorrow": string("What to do when the flavor fits only with borrowing.", enum=borrow, default="MayStopSearch"),
            "whenCanPreempt": string("What to do when the flavor fits only with preemption.", enum=preempt, default="TryNextFlavor"),
            "preference": string("Which to prefer where both are possible. Needs TryNextFlavor in both fields above.", enum=["BorrowingOverPreemption", "PreemptionOverBorrowing"]),
        }, default={}),
        "preemption": obj("Whom a waiting workload may evict.", {
            "reclaimWithinCohort": string("In other queues of the cohort that use more than their nominal quota.", enum=["Never", "LowerPriority", "Any"], default="Never"),
            "borrowWithinCohort": obj("Whether a workload that has to borrow may evict in other queues.", {
                "policy": string("LowerPriority: those of lower priority.", enum=["Never", "LowerPriority"], default="Never"),
                "maxPriorityThreshold": integer("Only workloads of at most this priority are evicted."),
            }, default={}),
            "withinClusterQueue": string("In this queue itself.", enum=["Never", "LowerPriority", "LowerOrNewerEqualPriority"], default="Never"),
        }, default={}),
        "admissionChecks": array("Names of the AdmissionChecks of this queue. Use admissionChecksStrategy instead.", string(maxLength=316)) if v == 1 else None,
        "admissionChecksStrategy": obj("AdmissionChecks that a workload has to pass, by flavor.", {
            ("admissionChecks!" if v == 2 else "admissionChecks"): array("The checks.", obj("One check.", {"name!": check_name(v), "onFlavors": on_flavors}),
                                                                         **({"keys": ["name"], "minItems": 1, "maxItems": 64} if v == 2 else {})),
        }),
        "stopPolicy": string("None: open. Hold: nothing new is admitted. HoldAndDrain: running workloads are evicted too.", enum=["None", "Hold", "HoldAndDrain"], default="None"),
        "fairSharing": fair_sharing(),
        "admissionScope": obj("How the waiting workloads of this queue are ordered.", {
            "admissionMode!": string("Whether past usage of a LocalQueue counts.", enum=modes if v == 2 else None),
        }),
        "concurrentAdmissionPolicy": obj("Trying several flavors at a time.", {
            "migration!": obj("What happens when a better flavor comes free.", {
                "mode!": string("Move to preferred flavors, or stay on the first one.", enum=["TryPreferredFlavors", "RetainFirstAdmission"], maxLength=253),
                "constraints": obj("Limits of moving.", {"lastAcceptableFlavorName": name_ref("The least preferred flavor that is still good enough.")}),
            }),
        }) if v == 2 else None,
    }
    status = {
        "conditions": conditions(v, "Active says whether the queue admits."),
        "flavorsReservation": usage("Quota that workloads hold, admitted or not yet.", True),
        "flavorsUsage": usage("Quota that admitted workloads use.", True),
        "pendingWorkloads": integer("Workloads that wait."),
        "reservingWorkloads": integer("Workloads that hold quota."),
        "admittedWorkloads": integer("Workloads that are admitted and not finished."),
        "pendingWorkloadsStatus": obj("No longer filled.", {
            "clusterQueuePendingWorkload": array("Head of the queue.", obj("A waiting workload.", {"name!": string("Its name."), "namespace!": string("Its namespace.")}), list_type="atomic"),
            "lastChangeTime!": string("When it last changed.", format="date-time"),
        }) if v == 1 else None,
        "fairSharing": fair_status(consumed=v == 1),
    }
    return {"spec": obj("Quota and policies of the queue.", spec), "status": obj("What the queue holds now.", status)}


def cohort(v):
    return {"spec": obj("Quota and place of the cohort.", {
        "parentName": name_ref("Name of the cohort above. It need not exist as an object."),
        "resourceGroups": resource_groups(v, "Cohort", "the cohort above", SAME_NUMBER),
        "fairSharing": fair_sharing(),
    }), "status": obj("State of the cohort.", {"fairSharing": fair_status(consumed=v == 1)})}


def local_queue(v):
    flavors = array("No longer filled.", obj("A flavor of the queue.", {
        "name!": name_ref("Name of the ResourceFlavor."),
        "resources": array("Resources with quota on it.", string(), list_type="set", maxItems=64),
        "nodeLabels": map_of("Labels of its nodes.", string(), maxProperties=8, **{"x-kubernetes-map-type": "atomic"}),
        "nodeTaints": taints("Taints of its nodes."),
        "topology": obj("Topology of its nodes.", {
            "name!": name_ref("Name of the Topology."),
            "levels!": array("Labels of its levels.", string(), list_type="atomic", minItems=1, maxItems=16),
        }),
    }), keys=["name"], maxItems=64)
    return {"spec": obj("Where the jobs of this queue go.", {
        "clusterQueue": name_ref("Name of the ClusterQueue that serves this queue.", rules=[("self == oldSelf", "field is immutable")]),
        "stopPolicy": string("None: open. Hold: nothing new is admitted. HoldAndDrain: running workloads are evicted too.", enum=["None", "Hold", "HoldAndDrain"], default="None"),
        "fairSharing": fair_sharing(),
    }), "status": obj("What the queue holds now.", {
        "conditions": conditions(v, "Active says whether jobs of this queue can be admitted."),
        "pendingWorkloads": integer("Workloads that wait."),
        "reservingWorkloads": integer("Workloads that hold quota."),
        "admittedWorkloads": integer("Workloads that are admitted and not finished."),
        "flavorsReservation": usage("Quota that workloads of this queue hold, admitted or not yet.", False),
        ("flavorsUsage" if v == 2 else "flavorUsage"): usage("Quota that admitted workloads of this queue use.", False),
        "flavors": flavors if v == 1 else None,
        "fairSharing": fair_status(consumed=True),
    })}


def priority_class(v):
    return {"value!": integer("Priority of the workloads of this class; higher goes first."),
            "description": string("What the class is for.", maxLength=2048 if v == 2 else None)}


def admission_check(v):
    one = {"minLength": 1} if v == 2 else {}
    return {"spec": obj("Who checks, and how.", {
        "controllerName!": string("Name of the controller that answers for this check.", **({"minLength": 1, "maxLength": 253} if v == 2 else {}),
                                  rules=[("self == oldSelf", "field is immutable")]),
        "parameters": obj("An object with settings for the controller.", {
            "apiGroup!": string("API group of the object.", **one, maxLength=253, pattern=SUBDOMAIN),
            "kind!": string("Kind of the object.", **one, maxLength=63, pattern=KIND),
            "name!": string("Name of the object.", **one, maxLength=63, pattern=LABEL),
        }),
        "retryDelayMinutes": integer("No longer used.", bits=64, default=15) if v == 1 else None,
    }), "status": obj("State of the check.", {"conditions": conditions(v, "Active says whether the controller serves this check.")})}


def topology(v):
    return {"spec": obj("Levels of the data centre.", {
        "levels!": array("From the widest to the narrowest.", obj("One level.", {
            "nodeLabel!": string("Node label whose value names the domain of this level.", minLength=1, maxLength=316, pattern=LABEL_KEY),
        }), list_type="atomic", minItems=1, maxItems=16, rules=[
            ("self == oldSelf", "field is immutable"),
            ("self.all(a, self.exists_one(b, b.nodeLabel == a.nodeLabel))", "levels must have different node labels"),
            ("!self.exists(a, a.nodeLabel == 'kubernetes.io/hostname') || self[size(self) - 1].nodeLabel == 'kubernetes.io/hostname'",
             "kubernetes.io/hostname can only be the last level"),
        ]),
    })}


def mk_cluster(v):
    one = {"minLength": 1, "maxLength": 256} if v == 2 else {}
    kube_config = obj("Where the kubeconfig is.", {
        "location!": string("Name of the Secret, or path of the file.", **one),
        ("locationType" if v == 2 else "locationType!"): string("Whether it is a Secret or a file.", enum=["Secret", "Path"], default="Secret"),
    })
    profile = obj("A ClusterProfile that describes the cluster.", {"name!": string("Its name.", minLength=1, maxLength=256)})
    if v == 2:
        spec = {"clusterSource!": obj("How the cluster is reached.", {"kubeConfig": kube_config, "clusterProfileRef": profile},
                                      rules=[("has(self.kubeConfig) != has(self.clusterProfileRef)", "exactly one of kubeConfig and clusterProfileRef is needed")])}
    else:
        spec = {"kubeConfig!": kube_config, "clusterProfileRef": profile}
    return {"spec": obj("How the cluster is reached.", spec), "status": obj("State of the connection.", {"conditions": conditions(v, "Active says whether the cluster is connected.")})}


def mk_config(v):
    if v == 2:
        clusters = array("Names of the MultiKueueClusters.", string(maxLength=256), list_type="atomic", minItems=1, maxItems=20,
                         rules=[("self.all(a, self.exists_one(b, b == a))", "clusters must be different")])
    else:
        clusters = array("Names of the MultiKueueClusters.", string(), list_type="set", minItems=1, maxItems=20)
    return {"spec": obj("Clusters to use.", {
        "clusters!": clusters,
        "quotaManagement": string("Who keeps the quota of the manager cluster in step with its workers.", enum=["Manual", "Automated"]) if v == 2 else None,
    })}


def provisioning_config(v):
    return {"spec": obj("How ProvisioningRequests are made.", {
        "provisioningClassName!": string("Class of the requests.", minLength=1 if v == 2 else None, maxLength=253, pattern=SUBDOMAIN),
        "parameters": map_of("Parameters for the class.", string(maxLength=255), maxProperties=100),
        "managedResources": array("Only pod sets that ask for one of these are requested. Empty: all.", string(), list_type="set", maxItems=100),
        "retryStrategy": obj("When to try again after a failure.", {
            "backoffLimitCount": integer("How often.", default=3),
            "backoffBaseSeconds": integer("First delay; it doubles each time.", default=60),
            "backoffMaxSeconds": integer("Longest delay.", default=1800),
        }, default={"backoffLimitCount": 3, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800}),
        "podSetUpdates": obj("What the pods get once capacity is there.", {
            "nodeSelector": array("Node labels to select.", obj("One label.", {
                "key!": string("Key of the label.", minLength=1, maxLength=317, pattern=LABEL_KEY),
                "valueFromProvisioningClassDetail!": string("Detail of the request's class that holds the value.", minLength=1, maxLength=32768),
            }), keys=["key"] if v == 2 else None, maxItems=8),
        }),
        "podSetMergePolicy": string("Which pod sets share one request.", enum=["IdenticalPodTemplates", "IdenticalWorkloadSchedulingRequirements"]),
    })}


# --- Workload --------------------------------------------------------------------------------------------------------------

def pod_template():
    """Open below spec: the webhook checks what the engine reads (docs/decisions/crd-cost.md), the job's kind has checked the rest."""
    return obj("Template of the pods, as in the job. Its inside is checked by the webhook.", {
        "metadata": obj("Metadata of the pods.", {
            "name": string(), "namespace": string(),
            "labels": map_of(None, string()), "annotations": map_of(None, string()),
            "finalizers": array(None, string()),
        }),
        "spec": {"type": "object", "description": "Specification of the pods.", "required": ["containers"], "x-kubernetes-preserve-unknown-fields": True},
    }, **{"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-map-type": "atomic"})


def topology_request(v):
    def text(desc, limit):
        return string(desc, maxLength=limit if v == 2 else None)
    return obj("Where the pods should be relative to each other.", {
        "required": text("Level of the topology that must hold all pods in one domain.", 63),
        "preferred": text("Level that should hold all pods in one domain.", 63),
        "unconstrained": boolean("Any domain will do, but capacity is counted by topology."),
        "podIndexLabel": text("Pod label with the index of the pod.", 317),
        "subGroupIndexLabel": text("Pod label with the index of the sub-group.", 317),
        "subGroupCount": integer("Number of sub-groups."),
        "podSetGroupName": text("Pod sets with the same group name are placed together.", 256),
        "podSetSliceRequiredTopology": text("Level that must hold each slice in one domain.", 63),
        "podSetSliceSize": integer("Number of pods of a slice."),
        "podsetSliceRequiredTopologyConstraints": array("Slices within slices, from the widest level.", obj("One level of slices.", {
            "topology!": string("Level that must hold each slice in one domain.", minLength=1, maxLength=63),
            "size!": integer("Number of pods of a slice.", minimum=1),
        }), list_type="atomic", maxItems=3) if v == 2 else None,
    })


def topology_assignment(v):
    levels = array("Node labels of the levels.", string(maxLength=317 if v == 2 else None), list_type="atomic", minItems=1, maxItems=16)
    if v == 1:
        return obj("Domains that the pods go to.", {"levels!": levels, "domains!": array("The domains.", obj("One domain.", {
            "values!": array("Its value at each level.", string(), list_type="atomic", minItems=1, maxItems=16),
            "count!": integer("Number of its pods.", minimum=1),
        }))})
    values = obj("Values of one level.", {
        "universal": string("The same for all domains.", maxLength=63),
        "individual": obj("One for each domain: prefix, root and suffix joined.", {
            "prefix": string("Common start.", maxLength=63),
            "suffix": string("Common end.", maxLength=63),
            "roots!": array("The part that differs.", string(maxLength=63), list_type="atomic", minItems=1, maxItems=100000),
        }),
    })
    counts = obj("Numbers of pods.", {
        "universal": integer("The same for all domains.", minimum=1),
        "individual": array("One for each domain.", integer(minimum=1), list_type="atomic", minItems=1, maxItems=100000),
    })
    return obj("Domains that the pods go to.", {"levels!": levels, "slices!": array("The domains, in runs.", obj("Some domains.", {
        "domainCount!": integer("Number of domains.", minimum=1),
        "valuesPerLevel!": array("Their values, level by level.", values, list_type="atomic", minItems=1, maxItems=16),
        "podCounts!": counts,
    }), list_type="atomic", maxItems=1000)})


def workload_spec(v):
    bang = "!" if v == 1 else ""
    spec = {
        "podSets" + bang: array("Groups of equal pods.", obj("Equal pods.", {
            "name": pod_set_name(default="main"),
            "template!": pod_template(),
            "count" + bang: integer("Number of pods.", minimum=0, default=1),
            "minCount": integer("The job can run with as few as this many pods.", minimum=1),
            "topologyRequest": topology_request(v),
        }), keys=["name"], minItems=1, maxItems=18),
        "queueName": name_ref("Name of the LocalQueue, in the same namespace."),
        "priority": integer("Priority; higher goes first."),
        "active": boolean("False keeps the workload out, and evicts it when it runs.", default=True),
        "maximumExecutionTimeSeconds": integer("How long it may run before it is stopped for good.", minimum=1),
    }
    if v == 2:
        spec["priorityClassRef"] = obj("Where the priority comes from.", {
            "group!": string("API group of the class.", enum=["kueue.x-k8s.io", "scheduling.k8s.io"]),
            "kind!": string("Kind of the class.", enum=["WorkloadPriorityClass", "PriorityClass"]),
            "name!": string("Name of the class.", minLength=1, maxLength=253, pattern=SUBDOMAIN),
        })
        spec["preemptionGates"] = array("While one is closed the workload evicts nobody.", obj("A gate.", {
            "name!": string("Its name.", minLength=1, maxLength=63)}), keys=["name"], maxItems=8)
    else:
        spec["priorityClassName"] = name_ref("Name of the class that the priority comes from.")
        spec["priorityClassSource"] = string("Kind of that class.", enum=["kueue.x-k8s.io/workloadpriorityclass", "scheduling.k8s.io/priorityclass", ""], default="")
    return obj("What the workload needs.", spec)


def workload_status(v):
    bang = "!" if v == 1 else ""
    two = v == 2
    assignment = obj("What one pod set got.", {
        "name" + bang: pod_set_name(default="main"),
        "flavors": map_of("Flavor by resource.", name_ref()),
        "resourceUsage": map_of("Quota used by all pods of the set, by resource.", quantity()),
        "count": integer("Number of pods that were admitted.", minimum=0),
        "topologyAssignment": topology_assignment(v),
        "delayedTopologyRequest": string("Whether the domains are still to be assigned.", **({"enum": ["Pending", "Ready"], "maxLength": 7} if two else {})),
    })
    check = obj("State of one check.", {
        "name!": check_name(v),
        "state!": string("Where it stands.", enum=["Pending", "Ready", "Retry", "Rejected"]),
        "lastTransitionTime!": string("When the state last changed.", format="date-time"),
        "message!": string("Why, for people.", maxLength=32768),
        "requeueAfterSeconds": integer("How long to wait before the next attempt.", minimum=0),
        "retryCount": integer("Number of attempts that failed.", minimum=0),
        "podSetUpdates": array("What the check adds to the pods.", obj("Additions to one pod set.", {
            "name!": pod_set_name(),
            "labels": map_of("Labels to add.", string()),
            "annotations": map_of("Annotations to add.", string()),
            "nodeSelector": map_of("Node labels to select.", string()),
            "tolerations": tolerations("Tolerations to add.", list_type="atomic" if two else None),
        }), list_type="atomic", maxItems=18),
    })
    status = {
        "conditions": conditions(v, "How far the workload has come."),
        "admission": obj("What was reserved, and where.", {
            "clusterQueue" + bang: name_ref("Name of the ClusterQueue."),
            "podSetAssignments" + bang: array("By pod set, in the order of spec.podSets.", assignment, keys=["name"], maxItems=18),
        }),
        "requeueState": obj("State of the back-off.", {
            "count": integer("How often the workload was put back.", minimum=0),
            "requeueAt": string("When it may be tried again.", format="date-time"),
        }),
        "reclaimablePods": array("Pods that are done and whose quota is free again.", obj("One pod set.", {
            "name!": pod_set_name(), "count!": integer("Number of pods.", minimum=0)}), keys=["name"], maxItems=18),
        "admissionChecks": array("Checks of the queue.", check, keys=["name"], maxItems=8),
        "resourceRequests": array("What is asked for, while the workload waits.", obj("One pod set.", {
            "name!": pod_set_name(), "resources": map_of("Sum over its pods, by resource.", quantity())}), keys=["name"], maxItems=18),
        ("accumulatedPastExecutionTimeSeconds" if two else "accumulatedPastExexcutionTimeSeconds"): integer("Seconds that earlier admissions have run."),
        "schedulingStats": obj("What happened to the workload so far.", {
            "evictions": array("Evictions by reason.", obj("One reason.", {
                "reason!": string("Reason of the Evicted condition.", maxLength=316),
                "underlyingCause!": string("What was behind it, if anything.", maxLength=316),
                "count!": integer("How often.", minimum=0),
            }), keys=["reason", "underlyingCause"], maxItems=256 if two else None),
        }),
        "nominatedClusterNames": array("Clusters that may run the workload.", string(maxLength=256 if two else None), list_type="atomic", maxItems=20),
        "clusterName": string("Cluster that runs the workload.", maxLength=256 if two else None),
        "unhealthyNodes": array("Failed nodes with pods of the workload.", obj("A node.", {"name!": string("Its name.", maxLength=63 if two else None)}),
                                **({"keys": ["name"], "maxItems": 8} if two else {})),
        "preemptionGates": array("State of the preemption gates.", obj("A gate.", {
            "name!": string("Its name.", minLength=1, maxLength=63),
            "position!": string("Closed holds evictions back.", enum=["Closed", "Open"]),
            "lastTransitionTime!": string("When the position last changed.", format="date-time"),
        }), keys=["name"], maxItems=8) if two else None,
    }
    return obj("What became of the workload.", status)


def workload(v):
    return {"spec": workload_spec(v), "status": workload_status(v)}


# --- the table of kinds ------------------------------------------------------------------------------------------------------

def _condition_column(name, type_):
    return (name, f".status.conditions[?(@.type=='{type_}')].status", "string", 0)


_AGE = ("Age", ".metadata.creationTimestamp", "date", 0)


def _queue_columns(v):
    return [("Cohort", ".spec.cohortName" if v == 2 else ".spec.cohort", "string", 0), ("Strategy", ".spec.queueingStrategy", "string", 1),
            ("Pending Workloads", ".status.pendingWorkloads", "integer", 0), ("Admitted Workloads", ".status.admittedWorkloads", "integer", 1)]


_LOCAL_COLUMNS = [("ClusterQueue", ".spec.clusterQueue", "string", 0), ("Pending Workloads", ".status.pendingWorkloads", "integer", 0),
                  ("Admitted Workloads", ".status.admittedWorkloads", "integer", 0)]
_WORKLOAD_COLUMNS = [("Queue", ".spec.queueName", "string", 0), ("Reserved in", ".status.admission.clusterQueue", "string", 0),
                     _condition_column("Admitted", "Admitted"), _condition_column("Finished", "Finished"), _AGE]

# kind, plural, short names, namespaced, converted by webhook, schema, status, columns(version), description
KINDS = [
    ("AdmissionCheck", "admissionchecks", ["ac"], False, False, admission_check, True, lambda v: [], "A condition, answered by a controller, that workloads of some queues have to pass."),
    ("ClusterQueue", "clusterqueues", ["cq"], False, True, cluster_queue, True, _queue_columns, "A pool of quota, with the policies for those who use it."),
    ("Cohort", "cohorts", ["co"], False, True, cohort, True, lambda v: [], "A group of ClusterQueues and cohorts that lend each other unused quota."),
    ("LocalQueue", "localqueues", ["queue", "queues", "lq"], True, True, local_queue, True, lambda v: _LOCAL_COLUMNS, "The queue of a namespace: jobs name it, a ClusterQueue serves it."),
    ("MultiKueueCluster", "multikueueclusters", ["mkc"], False, True, mk_cluster, True, lambda v: [_condition_column("Connected", "Active"), _AGE],
     "A cluster that can run workloads of this one."),
    ("MultiKueueConfig", "multikueueconfigs", ["mkconf"], False, False, mk_config, False, lambda v: [], "A list of clusters for an AdmissionCheck."),
    ("ProvisioningRequestConfig", "provisioningrequestconfigs", ["prc"], False, False, provisioning_config, False, lambda v: [], "How an AdmissionCheck asks for new nodes."),
    ("ResourceFlavor", "resourceflavors", ["flavor", "flavors", "rf"], False, False, resource_flavor, False, lambda v: [], "A kind of node: which ones they are and what pods need to run there."),
    ("Topology", "topologies", ["topo"], False, False, topology, False, lambda v: [], "How nodes are grouped in racks, blocks and the like."),
    ("WorkloadPriorityClass", "workloadpriorityclasses", ["wpc"], False, False, priority_class, False, lambda v: [("Value", ".value", "integer", 0)], "A priority in the queues that leaves the pods' own priority alone."),
    ("Workload", "workloads", ["kwl", "kueueworkload", "kueueworkloads"], True, True, workload, True, lambda v: _WORKLOAD_COLUMNS, "What a job needs, and what it got."),
]
NOT_DEPRECATED = {"MultiKueueConfig"}  # in v1beta1

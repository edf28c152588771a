/*
 * Every name of the API that clients see: groups, labels, annotations, finalizers, gates, condition types, reasons,
 * event reasons, field managers. Constants only. Names of ours begin with sluice.dev/.
 */
#ifndef SLUICE_API_NAMES_H
#define SLUICE_API_NAMES_H

#define SL_GROUP            "kueue.x-k8s.io"
#define SL_V1BETA1          "kueue.x-k8s.io/v1beta1"
#define SL_V1BETA2          "kueue.x-k8s.io/v1beta2"
#define SL_GROUP_SCHEDULING "scheduling.k8s.io"
#define SL_GROUP_VISIBILITY "visibility.kueue.x-k8s.io"
#define SL_GROUP_CONFIG     "config.kueue.x-k8s.io"

/* labels: on jobs and pods, by users */
#define SL_LABEL_QUEUE_NAME     "kueue.x-k8s.io/queue-name"
#define SL_LABEL_PRIORITY_CLASS "kueue.x-k8s.io/priority-class"
#define SL_LABEL_MAX_EXEC_TIME  "kueue.x-k8s.io/max-exec-time-seconds"
#define SL_LABEL_PREBUILT       "kueue.x-k8s.io/prebuilt-workload-name" /* an annotation of this name wins */
#define SL_LABEL_POD_GROUP_NAME "kueue.x-k8s.io/pod-group-name"         /* likewise */
/* labels: ours */
#define SL_LABEL_JOB_UID            "kueue.x-k8s.io/job-uid"
#define SL_LABEL_PODSET             "kueue.x-k8s.io/podset"
#define SL_LABEL_LOCAL_QUEUE_NAME   "kueue.x-k8s.io/local-queue-name"
#define SL_LABEL_CLUSTER_QUEUE_NAME "kueue.x-k8s.io/cluster-queue-name"
#define SL_LABEL_MANAGED            "kueue.x-k8s.io/managed"

/* annotations */
#define SL_ANNOTATION_MIN_PARALLELISM                "kueue.x-k8s.io/job-min-parallelism"
#define SL_ANNOTATION_COMPLETIONS_EQUAL_PARALLELISM  "kueue.x-k8s.io/job-completions-equal-parallelism"
#define SL_ANNOTATION_STOPPING                       "kueue.x-k8s.io/stopping"
#define SL_ANNOTATION_WORKLOAD                       "kueue.x-k8s.io/workload"
#define SL_ANNOTATION_ADMISSION_GATED_BY             "kueue.x-k8s.io/admission-gated-by"
#define SL_ANNOTATION_PRIORITY_BOOST                 "kueue.x-k8s.io/priority-boost"
#define SL_ANNOTATION_ELASTIC_JOB                    "kueue.x-k8s.io/elastic-job"
#define SL_ANNOTATION_WORKLOAD_SLICE_NAME            "kueue.x-k8s.io/workload-slice-name"
#define SL_ANNOTATION_IS_GROUP_WORKLOAD              "kueue.x-k8s.io/is-group-workload"
#define SL_ANNOTATION_POD_GROUP_TOTAL_COUNT          "kueue.x-k8s.io/pod-group-total-count"
#define SL_ANNOTATION_POD_GROUP_FAST_ADMISSION       "kueue.x-k8s.io/pod-group-fast-admission"
#define SL_ANNOTATION_POD_GROUP_SERVING              "kueue.x-k8s.io/pod-group-serving"
#define SL_ANNOTATION_RETRIABLE_IN_GROUP             "kueue.x-k8s.io/retriable-in-group"
#define SL_ANNOTATION_ROLE_HASH                      "kueue.x-k8s.io/role-hash"
#define SL_ANNOTATION_POD_SUSPENDING_PARENT          "kueue.x-k8s.io/pod-suspending-parent"
#define SL_ANNOTATION_JOB_OWNER_GVK                  "kueue.x-k8s.io/job-owner-gvk"
#define SL_ANNOTATION_JOB_OWNER_NAME                 "kueue.x-k8s.io/job-owner-name"
#define SL_ANNOTATION_PODSET_REQUIRED_TOPOLOGY       "kueue.x-k8s.io/podset-required-topology"
#define SL_ANNOTATION_PODSET_PREFERRED_TOPOLOGY      "kueue.x-k8s.io/podset-preferred-topology"
#define SL_ANNOTATION_PODSET_UNCONSTRAINED_TOPOLOGY  "kueue.x-k8s.io/podset-unconstrained-topology"
#define SL_ANNOTATION_PODSET_SLICE_REQUIRED_TOPOLOGY "kueue.x-k8s.io/podset-slice-required-topology"
#define SL_ANNOTATION_PODSET_SLICE_SIZE              "kueue.x-k8s.io/podset-slice-size"
#define SL_ANNOTATION_PODSET_SLICE_CONSTRAINTS       "kueue.x-k8s.io/podset-slice-required-topology-constraints"
#define SL_ANNOTATION_PODSET_GROUP_NAME              "kueue.x-k8s.io/podset-group-name"
#define SL_ANNOTATION_PREFIX_PROVISIONING            "provreq.kueue.x-k8s.io/"
#define SL_ANNOTATION_UNDO_START                     "sluice.dev/undo-start" /* what the start has put into the job */

/* finalizers, gates */
#define SL_FINALIZER_IN_USE "kueue.x-k8s.io/resource-in-use"
#define SL_FINALIZER_POD    "kueue.x-k8s.io/managed"
#define SL_GATE_ADMISSION   "kueue.x-k8s.io/admission"
#define SL_GATE_TOPOLOGY    "kueue.x-k8s.io/topology"
#define SL_GATE_ELASTIC     "kueue.x-k8s.io/elastic-job"

/* names with a meaning */
#define SL_DEFAULT_PODSET          "main"
#define SL_DEFAULT_LOCAL_QUEUE     "default"
#define SL_DEFAULT_PRIORITY_CLASS  "default"
#define SL_RESOURCE_PODS           "pods"
#define SL_POD_INDEX_LABEL         "batch.kubernetes.io/job-completion-index"
#define SL_CONTROLLER_MULTIKUEUE   "kueue.x-k8s.io/multikueue"
#define SL_CONTROLLER_PROVISIONING "kueue.x-k8s.io/provisioning-request"
#define SL_LEADER_LEASE            "c1f6bfd2.kueue.x-k8s.io"

/* condition types: Workload */
#define SL_COND_QUOTA_RESERVED              "QuotaReserved"
#define SL_COND_ADMITTED                    "Admitted"
#define SL_COND_FINISHED                    "Finished"
#define SL_COND_PODS_READY                  "PodsReady"
#define SL_COND_EVICTED                     "Evicted"
#define SL_COND_PREEMPTED                   "Preempted"
#define SL_COND_REQUEUED                    "Requeued"
#define SL_COND_DEACTIVATION_TARGET         "DeactivationTarget"
#define SL_COND_WAITING_FOR_REPLACEMENT     "WaitingForReplacementPods"
#define SL_COND_BLOCKED_ON_PREEMPTION_GATES "BlockedOnPreemptionGates"
/* condition types: queues, checks; pods */
#define SL_COND_ACTIVE             "Active"
#define SL_COND_TERMINATION_TARGET "TerminationTarget"

/* reasons of QuotaReserved */
#define SL_REASON_QUOTA_RESERVED  "QuotaReserved"
#define SL_REASON_PENDING         "Pending"
#define SL_REASON_INADMISSIBLE    "Inadmissible"
#define SL_REASON_WAITING         "Waiting"
#define SL_REASON_ADMISSION_GATED "AdmissionGated"
#define SL_REASON_ON_HOLD         "OnHold"
/* reasons of Admitted */
#define SL_REASON_ADMITTED                   "Admitted"
#define SL_REASON_NO_RESERVATION             "NoReservation"
#define SL_REASON_NO_RESERVATION_UNSATISFIED "NoReservationUnsatisfiedChecks"
#define SL_REASON_UNSATISFIED_CHECKS         "UnsatisfiedChecks"
/* reasons of Finished */
#define SL_REASON_SUCCEEDED       "Succeeded"
#define SL_REASON_FAILED          "Failed"
#define SL_REASON_FAILED_TO_START "FailedToStart"
#define SL_REASON_OUT_OF_SYNC     "OutOfSync"
#define SL_REASON_OWNER_NOT_FOUND "OwnerNotFound"
/* reasons of PodsReady, WaitingForReplacementPods */
#define SL_REASON_WAIT_FOR_START    "WaitForStart"
#define SL_REASON_STARTED           "Started"
#define SL_REASON_WAIT_FOR_RECOVERY "WaitForRecovery"
#define SL_REASON_RECOVERED         "Recovered"
#define SL_REASON_PODS_FAILED       "PodsFailed"
#define SL_REASON_PODS_READY        "PodsReady"
/* reasons of Evicted */
#define SL_REASON_PREEMPTED             "Preempted"
#define SL_REASON_PODS_READY_TIMEOUT    "PodsReadyTimeout"
#define SL_REASON_ADMISSION_CHECK       "AdmissionCheck"
#define SL_REASON_CLUSTER_QUEUE_STOPPED "ClusterQueueStopped"
#define SL_REASON_LOCAL_QUEUE_STOPPED   "LocalQueueStopped"
#define SL_REASON_DEACTIVATED           "Deactivated"
#define SL_REASON_DEACTIVATED_DUE_TO    "DeactivatedDueTo" /* followed by the reason of DeactivationTarget */
#define SL_REASON_NODE_FAILURES         "NodeFailures"
/* reasons of Preempted */
#define SL_REASON_IN_CLUSTER_QUEUE                  "InClusterQueue"
#define SL_REASON_IN_COHORT_RECLAMATION             "InCohortReclamation"
#define SL_REASON_IN_COHORT_FAIR_SHARING            "InCohortFairSharing"
#define SL_REASON_IN_COHORT_RECLAIM_WHILE_BORROWING "InCohortReclaimWhileBorrowing"
/* reasons of Requeued, beside those of Evicted */
#define SL_REASON_BACKOFF_FINISHED        "BackoffFinished"
#define SL_REASON_CLUSTER_QUEUE_RESTARTED "ClusterQueueRestarted"
#define SL_REASON_LOCAL_QUEUE_RESTARTED   "LocalQueueRestarted"
#define SL_REASON_REACTIVATED             "Reactivated"
/* reasons of DeactivationTarget */
#define SL_REASON_MAX_EXEC_TIME_EXCEEDED   "MaximumExecutionTimeExceeded"
#define SL_REASON_REQUEUING_LIMIT_EXCEEDED "RequeuingLimitExceeded"
/* reasons of Active */
#define SL_REASON_READY                        "Ready"
#define SL_REASON_TERMINATING                  "Terminating"
#define SL_REASON_STOPPED                      "Stopped"
#define SL_REASON_FLAVOR_NOT_FOUND             "FlavorNotFound"
#define SL_REASON_ADMISSION_CHECK_NOT_FOUND    "AdmissionCheckNotFound"
#define SL_REASON_ADMISSION_CHECK_INACTIVE     "AdmissionCheckInactive"
#define SL_REASON_TOPOLOGY_NOT_FOUND           "TopologyNotFound"
#define SL_REASON_COHORT_CYCLE                 "CohortCycle" /* ours */
#define SL_REASON_CLUSTER_QUEUE_DOES_NOT_EXIST "ClusterQueueDoesNotExist"
#define SL_REASON_CLUSTER_QUEUE_IS_INACTIVE    "ClusterQueueIsInactive"

/* event reasons, beside the condition reasons above */
#define SL_EVENT_QUOTA_RESERVED           "QuotaReserved"
#define SL_EVENT_ADMITTED                 "Admitted"
#define SL_EVENT_PENDING                  "Pending"
#define SL_EVENT_PREEMPTED                "Preempted"
#define SL_EVENT_PREEMPTED_WORKLOAD       "PreemptedWorkload"
#define SL_EVENT_EVICTED_DUE_TO           "EvictedDueTo" /* followed by the reason of Evicted */
#define SL_EVENT_MAX_EXEC_TIME_EXCEEDED   "MaximumExecutionTimeExceeded"
#define SL_EVENT_ADMISSION_CHECK_REJECTED "AdmissionCheckRejected"
#define SL_EVENT_ADMISSION_GATED          "AdmissionGated"
#define SL_EVENT_ADMISSION_GATE_CLEARED   "AdmissionGateCleared"
#define SL_EVENT_DELETED                  "Deleted"
#define SL_EVENT_CREATED_WORKLOAD         "CreatedWorkload"
#define SL_EVENT_UPDATED_WORKLOAD         "UpdatedWorkload"
#define SL_EVENT_DELETED_WORKLOAD         "DeletedWorkload"
#define SL_EVENT_FINISHED_WORKLOAD        "FinishedWorkload"
#define SL_EVENT_STARTED                  "Started"
#define SL_EVENT_STOPPED                  "Stopped"
#define SL_EVENT_SUSPENDED                "Suspended"
#define SL_EVENT_UPDATED_ADMISSION_CHECK  "UpdatedAdmissionCheck"
#define SL_EVENT_ERR_WORKLOAD_COMPOSE     "ErrWorkloadCompose"
#define SL_EVENT_JOB_NESTING_TOO_DEEP     "JobNestingTooDeep"
#define SL_EVENT_WORKLOAD_NAME_CONFLICT   "WorkloadNameConflict"
#define SL_EVENT_EXCESS_POD_DELETED       "ExcessPodDeleted"
#define SL_EVENT_OWNER_REFERENCES_ADDED   "OwnerReferencesAdded"
/* reporting controllers of events; job kinds report as "<integration>-kueue-controller" */
#define SL_REPORTER_ADMISSION "kueue-admission"
#define SL_REPORTER_WORKLOAD  "kueue-workload-controller"
#define SL_REPORTER_SUFFIX    "-kueue-controller"

/* field managers */
#define SL_MANAGER_ADMISSION        "kueue-admission"
#define SL_MANAGER_RECLAIMABLE_PODS "kueue-reclaimable-pods"
#define SL_MANAGER_PODS_READY       "kueue-job-controller-PodsReady"
#define SL_MANAGER_POD_CONTROLLER   "kueue-pod-controller"
#define SL_MANAGER_POD_STATUS       "kueue"

#endif

/*
 * The names of the fields that a Job has in the API, for typing errors: what an API server drops without a word, or
 * refuses when kubectl asks it to look closely. Kubernetes adds fields with every release, so an unknown one is worth a
 * warning and no more. A test compares the table with what an API server says it has.
 */
#include <stdlib.h>
#include <string.h>

#include "advice.h"
#include "sluice/api/builtin.h"
#include "sluice/base/mem.h"

#define RELEASE "1.37" /* of Kubernetes, whose fields these are */

/* Fields in alphabetical order; name:TYPE where what is in it (or in the items of the list) is looked at too. */
static const struct type {
    const char *name, *fields;
} types[] = {
    {"root", "apiVersion kind metadata:meta spec:job status"},
    {"meta", "annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generateName "
             "generation labels managedFields name namespace ownerReferences:owner resourceVersion selfLink uid"},
    {"job", "activeDeadlineSeconds backoffLimit backoffLimitPerIndex completionMode completions managedBy "
            "manualSelector maxFailedIndexes parallelism podFailurePolicy:podFailurePolicy podReplacementPolicy "
            "scheduling:jobSchedulingConfiguration selector:selector successPolicy:successPolicy suspend "
            "template:template ttlSecondsAfterFinished"},
    {"owner", "apiVersion blockOwnerDeletion controller kind name uid"},
    {"podFailurePolicy", "rules:podFailurePolicyRule"},
    {"jobSchedulingConfiguration",
     "disruptionMode:groupDisruptionMode resourceClaims:groupResourceClaim "
     "schedulingConstraints:groupSchedulingConstraints schedulingPolicy:groupSchedulingPolicy"},
    {"selector", "matchExpressions:requirement matchLabels"},
    {"successPolicy", "rules:successPolicyRule"},
    {"template", "metadata:meta spec:pod"},
    {"podFailurePolicyRule", "action onExitCodes:podFailurePolicyOnExitCodes "
                             "onPodConditions:podFailurePolicyOnPodConditionsPattern"},
    {"groupDisruptionMode", "all single"},
    {"groupResourceClaim", "name resourceClaimName resourceClaimTemplateName"},
    {"groupSchedulingConstraints", "topology:topologyConstraint"},
    {"groupSchedulingPolicy", "basic gang:groupGangSchedulingPolicy"},
    {"requirement", "key operator values"},
    {"successPolicyRule", "succeededCount succeededIndexes"},
    {"pod", "activeDeadlineSeconds affinity:affinity automountServiceAccountToken containers:container "
            "dnsConfig:podDNSConfig dnsPolicy enableServiceLinks ephemeralContainers:debugger "
            "evictionResponders:evictionResponder hostAliases:hostAlias hostIPC hostNetwork hostPID hostUsers "
            "hostname hostnameOverride imagePullSecrets:localObjectReference initContainers:container nodeName "
            "nodeSelector os:podOS overhead preemptionPolicy priority priorityClassName "
            "readinessGates:podReadinessGate resourceClaims:podResourceClaim resources:resources restartPolicy "
            "runtimeClassName schedulerName schedulingGates:podSchedulingGate schedulingGroup:podSchedulingGroup "
            "securityContext:podSecurityContext serviceAccount serviceAccountName setHostnameAsFQDN "
            "shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations:toleration "
            "topologySpreadConstraints:topologySpreadConstraint volumes:volume"},
    {"podFailurePolicyOnExitCodes", "containerName operator values"},
    {"podFailurePolicyOnPodConditionsPattern", "status type"},
    {"topologyConstraint", "key"},
    {"groupGangSchedulingPolicy", "minCount"},
    {"affinity", "nodeAffinity:nodeAffinity podAffinity:podAffinity podAntiAffinity:podAntiAffinity"},
    {"container",
     "args command env:envVar envFrom:envFrom image imagePullPolicy lifecycle:lifecycle "
     "livenessProbe:probe name ports:containerPort readinessProbe:probe resizePolicy:containerResizePolicy "
     "resources:resources restartPolicy restartPolicyRules:containerRestartRule "
     "securityContext:securityContext startupProbe:probe stdin stdinOnce terminationMessagePath "
     "terminationMessagePolicy tty volumeDevices:volumeDevice volumeMounts:volumeMount workingDir"},
    {"podDNSConfig", "nameservers options:podDNSConfigOption searches"},
    {"debugger", "args command env:envVar envFrom:envFrom image imagePullPolicy lifecycle:lifecycle "
                 "livenessProbe:probe name ports:containerPort readinessProbe:probe resizePolicy:containerResizePolicy "
                 "resources:resources restartPolicy restartPolicyRules:containerRestartRule "
                 "securityContext:securityContext startupProbe:probe stdin stdinOnce targetContainerName "
                 "terminationMessagePath terminationMessagePolicy tty volumeDevices:volumeDevice "
                 "volumeMounts:volumeMount workingDir"},
    {"evictionResponder", "name priority"},
    {"hostAlias", "hostnames ip"},
    {"localObjectReference", "name"},
    {"podOS", "name"},
    {"podReadinessGate", "conditionType"},
    {"podResourceClaim", "name resourceClaimName resourceClaimTemplateName"},
    {"resources", "claims:resourceClaim limits requests"},
    {"podSchedulingGate", "name"},
    {"podSchedulingGroup", "podGroupName"},
    {"podSecurityContext",
     "appArmorProfile:appArmorProfile fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser "
     "seLinuxChangePolicy seLinuxOptions:sELinuxOptions seccompProfile:seccompProfile supplementalGroups "
     "supplementalGroupsPolicy sysctls:sysctl windowsOptions:windowsSecurityContextOptions"},
    {"toleration", "effect key operator tolerationSeconds value"},
    {"topologySpreadConstraint",
     "labelSelector:selector matchLabelKeys maxSkew minDomains nodeAffinityPolicy nodeTaintsPolicy "
     "topologyKey whenUnsatisfiable"},
    {"volume", "awsElasticBlockStore azureDisk azureFile cephfs cinder configMap:configMapVolume csi:cSIVolume "
               "downwardAPI:downwardAPIVolume emptyDir:emptyDirVolume ephemeral:ephemeralVolume fc flexVolume "
               "flocker gcePersistentDisk gitRepo glusterfs hostPath:hostPathVolume image:imageVolume iscsi name "
               "nfs:nFSVolume persistentVolumeClaim:persistentVolumeClaimVolume photonPersistentDisk portworxVolume "
               "projected:projectedVolume quobyte rbd scaleIO secret:secretVolume storageos vsphereVolume"},
    {"nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution:preferredSchedulingTerm "
                     "requiredDuringSchedulingIgnoredDuringExecution:nodeSelector"},
    {"podAffinity", "preferredDuringSchedulingIgnoredDuringExecution:weightedPodAffinityTerm "
                    "requiredDuringSchedulingIgnoredDuringExecution:podAffinityTerm"},
    {"podAntiAffinity", "preferredDuringSchedulingIgnoredDuringExecution:weightedPodAffinityTerm "
                        "requiredDuringSchedulingIgnoredDuringExecution:podAffinityTerm"},
    {"envVar", "name value valueFrom:envValue"},
    {"envValue", "configMapKeyRef:configMapKeySelector fieldRef:objectFieldSelector fileKeyRef:fileKeySelector "
                 "resourceFieldRef:resourceFieldSelector secretKeyRef:secretKeySelector"},
    {"envFrom", "configMapRef:configMapEnv prefix secretRef:secretEnv"},
    {"lifecycle", "postStart:lifecycleHandler preStop:lifecycleHandler stopSignal"},
    {"probe", "exec:execAction failureThreshold grpc:gRPCAction httpGet:hTTPGetAction initialDelaySeconds "
              "periodSeconds successThreshold tcpSocket:tCPSocketAction terminationGracePeriodSeconds "
              "timeoutSeconds"},
    {"containerPort", "containerPort hostIP hostPort name protocol"},
    {"containerResizePolicy", "resourceName restartPolicy"},
    {"containerRestartRule", "action exitCodes:containerRestartRuleOnExitCodes"},
    {"securityContext",
     "allowPrivilegeEscalation appArmorProfile:appArmorProfile capabilities:capabilities privileged "
     "procMount readOnlyRootFilesystem runAsGroup runAsNonRoot runAsUser seLinuxOptions:sELinuxOptions "
     "seccompProfile:seccompProfile windowsOptions:windowsSecurityContextOptions"},
    {"volumeDevice", "devicePath name"},
    {"volumeMount", "bindMountOptions mountPath mountPropagation name readOnly recursiveReadOnly subPath subPathExpr"},
    {"podDNSConfigOption", "name value"},
    {"resourceClaim", "name request"},
    {"appArmorProfile", "localhostProfile type"},
    {"sELinuxOptions", "level role type user"},
    {"seccompProfile", "localhostProfile type"},
    {"sysctl", "name value"},
    {"windowsSecurityContextOptions", "gmsaCredentialSpec gmsaCredentialSpecName hostProcess runAsUserName"},
    {"configMapVolume", "defaultMode defaultUser items:keyToPath name optional"},
    {"cSIVolume", "driver fsType nodePublishSecretRef:localObjectReference readOnly volumeAttributes"},
    {"downwardAPIVolume", "defaultMode defaultUser items:downwardAPIVolumeFile"},
    {"emptyDirVolume", "medium mode sizeLimit"},
    {"ephemeralVolume", "volumeClaimTemplate:persistentVolumeClaimTemplate"},
    {"hostPathVolume", "path type"},
    {"imageVolume", "pullPolicy reference"},
    {"nFSVolume", "path readOnly server"},
    {"persistentVolumeClaimVolume", "claimName readOnly"},
    {"projectedVolume", "defaultMode defaultUser sources:volumeProjection"},
    {"secretVolume", "defaultMode defaultUser items:keyToPath optional secretName"},
    {"preferredSchedulingTerm", "preference:nodeSelectorTerm weight"},
    {"nodeSelector", "nodeSelectorTerms:nodeSelectorTerm"},
    {"weightedPodAffinityTerm", "podAffinityTerm:podAffinityTerm weight"},
    {"podAffinityTerm", "labelSelector:selector matchLabelKeys mismatchLabelKeys namespaceSelector:selector namespaces "
                        "topologyKey"},
    {"configMapEnv", "name optional"},
    {"secretEnv", "name optional"},
    {"lifecycleHandler", "exec:execAction httpGet:hTTPGetAction sleep:sleepAction tcpSocket:tCPSocketAction"},
    {"execAction", "command"},
    {"gRPCAction", "mode port service"},
    {"hTTPGetAction", "host httpHeaders:hTTPHeader path port protocol scheme"},
    {"tCPSocketAction", "host port"},
    {"containerRestartRuleOnExitCodes", "operator values"},
    {"capabilities", "add drop"},
    {"keyToPath", "key mode path user"},
    {"downwardAPIVolumeFile", "fieldRef:objectFieldSelector mode path resourceFieldRef:resourceFieldSelector user"},
    {"persistentVolumeClaimTemplate", "metadata:meta spec:persistentVolumeClaimSpec"},
    {"volumeProjection",
     "clusterTrustBundle:clusterTrustBundleProjection configMap:configMapProjection "
     "downwardAPI:downwardAPIProjection podCertificate:podCertificateProjection secret:secretProjection "
     "serviceAccountToken:serviceAccountTokenProjection"},
    {"nodeSelectorTerm", "matchExpressions:requirement matchFields:requirement"},
    {"configMapKeySelector", "key name optional"},
    {"objectFieldSelector", "apiVersion fieldPath"},
    {"fileKeySelector", "key optional path volumeName"},
    {"resourceFieldSelector", "containerName divisor resource"},
    {"secretKeySelector", "key name optional"},
    {"sleepAction", "seconds"},
    {"hTTPHeader", "name value"},
    {"persistentVolumeClaimSpec",
     "accessModes dataSource:typedLocalObjectReference dataSourceRef:typedObjectReference "
     "resources:volumeResourceRequirements selector:selector storageClassName volumeAttributesClassName "
     "volumeMode volumeName"},
    {"clusterTrustBundleProjection", "labelSelector:selector name optional path signerName user"},
    {"configMapProjection", "items:keyToPath name optional"},
    {"downwardAPIProjection", "items:downwardAPIVolumeFile"},
    {"podCertificateProjection",
     "certificateChainPath credentialBundlePath keyPath keyType maxExpirationSeconds signerName user "
     "userAnnotations"},
    {"secretProjection", "items:keyToPath name optional"},
    {"serviceAccountTokenProjection", "audience expirationSeconds path user"},
    {"typedLocalObjectReference", "apiGroup kind name"},
    {"typedObjectReference", "apiGroup kind name namespace"},
    {"volumeResourceRequirements", "limits requests"},
};

static const struct type *type_named(const char *name, size_t len) {
    for (size_t i = 0; i < SL_COUNT(types); i++)
        if (!strncmp(types[i].name, name, len) && !types[i].name[len])
            return &types[i];
    return NULL;
}

/* The word of a type's fields that is about this one; NULL: it has none of this name. */
static const char *find_field(const struct type *t, const char *name) {
    size_t len = strlen(name);
    for (const char *p = t->fields; *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " :");
        if (n == len && !memcmp(p, name, n))
            return p;
        p += strcspn(p, " ");
    }
    return NULL;
}

/* The field that was meant: with other capitals, or a slip or two away. Owned; NULL: none comes close. */
static char *meant_field(const struct type *t, const char *name) {
    size_t least = SIZE_MAX, len = strlen(name);
    char *best = NULL;
    if (len > ADVICE_NAME_MAX)
        return NULL;
    for (const char *p = t->fields; *p; p += strspn(p, " ")) {
        SL_AUTO_FREE char *known = sl_xstrndup(p, strcspn(p, " :"));
        size_t d = strcasecmp(known, name) ? advice_distance(name, known) : 0;
        if (d < least && d <= 1 + len / 6) {
            least = d;
            free(best);
            best = SL_TAKE(known);
        }
        p += strcspn(p, " ");
    }
    return best;
}

static void check(const struct type *t, const struct sl_json *object, const struct sl_path *path,
                  struct sl_fielderrs *warnings) {
    SL_JSON_EACH (object, e) {
        const struct sl_path *at = SL_PATH(path, e.key);
        const char *field = find_field(t, e.key);
        if (!field) {
            SL_AUTO_FREE char *meant = meant_field(t, e.key);
            if (meant)
                sl_fielderr_add(warnings, SL_FE_UNKNOWN, at, NULL, "is %s meant?", meant);
            else
                sl_fielderr_add(warnings, SL_FE_UNKNOWN, at, NULL, "there is none of this name in Kubernetes " RELEASE);
            continue;
        }
        field += strcspn(field, " :");
        if (*field != ':')
            continue;
        const struct type *inner = type_named(field + 1, strcspn(field + 1, " "));
        SL_ASSERT(inner != NULL);
        check(inner, e.value, at, warnings);
        SL_JSON_ITEMS (e.value, i)
            check(inner, i.value, SL_PATH_AT(at, i.i), warnings);
    }
}

void advice_on_fields(const struct sl_json *object, struct sl_fielderrs *warnings) {
    if (!strcmp(sl_json_get_str(object, "kind", ""), "Job") && sl_builtin_is(object))
        check(type_named("root", strlen("root")), object, NULL, warnings);
}

/* Decoding of every kind, and of nonsense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/api/decode.h"
#include "sluice/base/mem.h"

static void decode__resourceflavor(void **s) {
    (void)s;
    SL_AUTO_JSON *j = sl_json_from(
        "{'metadata':{'name':'h100','uid':'u','annotations':{'sluice.dev/"
        "x':'1','other':'2'},'deletionTimestamp':'2026-01-01T00:00:00Z'},"
        "'spec':{'topologyName':'t','nodeLabels':{'b':'2','a':'1'},'nodeTaints':[{'key':'k','effect':'NoSchedule'}],"
        "'tolerations':[{'key':'k','operator':'Exists','tolerationSeconds':5}]}}");
    struct sl_flavor *f;
    assert_int_equal(sl_flavor_decode(j, &f, NULL), 0);
    assert_string_equal(f->name, "h100");
    assert_string_equal(f->topology, "t");
    assert_string_equal(f->node_labels.items[0].key, "a");
    assert_string_equal(f->taints[0].value, "");
    assert_true(f->tolerations[0].has_seconds && f->tolerations[0].seconds == 5);
    assert_int_equal(f->annotations.n, 1);
    assert_true(f->deleting);
    sl_flavor_free(f);
}

static void decode__clusterqueue(void **s) {
    (void)s;
    SL_AUTO_JSON *j = sl_json_from(
        "{'metadata':{'name':'q','uid':'u','generation':4},'spec':{'cohortName':'c','queueingStrategy':'StrictFIFO','"
        "stopPolicy':'HoldAndDrain',"
        "'namespaceSelector':{},'fairSharing':{'weight':'1500m'},"
        "'resourceGroups':[{'coveredResources':['cpu','nvidia.com/gpu'],'flavors':[{'name':'f','resources':["
        "{'name':'cpu','nominalQuota':'1500m','borrowingLimit':2},{'name':'nvidia.com/"
        "gpu','nominalQuota':'1E','lendingLimit':'0'}]}]}],"
        "'preemption':{'reclaimWithinCohort':'Any','withinClusterQueue':'LowerOrNewerEqualPriority','"
        "borrowWithinCohort':{'policy':'LowerPriority','maxPriorityThreshold':-5}},"
        "'flavorFungibility':{'whenCanBorrow':'TryNextFlavor','whenCanPreempt':'MayStopSearch'},"
        "'admissionChecksStrategy':{'admissionChecks':[{'name':'a'},{'name':'b','onFlavors':['f']}]}}}");
    struct sl_clusterqueue *q;
    assert_int_equal(sl_clusterqueue_decode(j, &q, NULL), 0);
    assert_string_equal(q->cohort, "c");
    assert_int_equal(q->generation, 4);
    assert_int_equal(q->strategy, SL_STRICT_FIFO);
    assert_int_equal(q->stop, SL_STOP_HOLD_AND_DRAIN);
    assert_true(q->has_namespace_selector && q->namespace_selector.n == 0);
    assert_true(q->weight > 1.49 && q->weight < 1.51);
    struct sl_quota *quotas = q->groups[0].flavors[0].quotas;
    assert_int_equal(quotas[0].nominal, 1500);
    assert_true(quotas[0].has_borrowing_limit && quotas[0].borrowing_limit == 2000 && !quotas[0].has_lending_limit);
    assert_int_equal(quotas[1].nominal, 1000000000000000000);
    assert_true(quotas[1].has_lending_limit && quotas[1].lending_limit == 0);
    assert_int_equal(q->reclaim_within_cohort, SL_PREEMPT_ANY);
    assert_int_equal(q->within_cluster_queue, SL_PREEMPT_LOWER_OR_NEWER_EQUAL);
    assert_int_equal(q->borrow_within_cohort, SL_PREEMPT_LOWER_PRIORITY);
    assert_true(q->has_max_priority_threshold && q->max_priority_threshold == -5);
    assert_int_equal(q->when_can_borrow, SL_TRY_NEXT_FLAVOR);
    assert_int_equal(q->when_can_preempt, SL_MAY_STOP_SEARCH);
    assert_int_equal(q->n_checks, 2);
    assert_string_equal(q->checks[1].flavors[0], "f");
    sl_clusterqueue_free(q);
}

static void decode__bare_clusterqueue_has_the_defaults(void **s) {
    (void)s;
    SL_AUTO_JSON *j = sl_json_from("{'metadata':{'name':'q'}}");
    struct sl_clusterqueue *q;
    assert_int_equal(sl_clusterqueue_decode(j, &q, NULL), 0);
    assert_null(q->cohort);
    assert_false(q->has_namespace_selector);
    assert_int_equal(q->when_can_borrow, SL_MAY_STOP_SEARCH);
    assert_int_equal(q->when_can_preempt, SL_TRY_NEXT_FLAVOR);
    assert_int_equal(q->preference, SL_BORROWING_OVER_PREEMPTION);
    assert_int_equal(q->within_cluster_queue, SL_PREEMPT_NEVER);
    assert_int_equal(q->strategy, SL_BEST_EFFORT_FIFO);
    assert_true(q->weight > 0.99 && q->weight < 1.01);
    sl_clusterqueue_free(q);
}

static void decode__errors_name_the_field(void **s) {
    (void)s;
    struct sl_err err = SL_ERR_INIT;
    struct sl_clusterqueue *q = NULL;
    SL_AUTO_JSON *bad = sl_json_from(
        "{'metadata':{'name':'q'},'spec':{'resourceGroups':[{'coveredResources':['cpu'],'flavors':[{'name':'f',"
        "'resources':[{'name':'cpu','nominalQuota':'ten'}]}]}]}}");
    assert_int_equal(sl_clusterqueue_decode(bad, &q, &err), SL_INVALID);
    assert_null(q);
    assert_non_null(strstr(err.text, "spec.resourceGroups[0].flavors[0].resources[0]: nominalQuota"));
    SL_AUTO_JSON *unnamed = sl_json_from("{'spec':{}}");
    assert_int_equal(sl_clusterqueue_decode(unnamed, &q, &err), SL_INVALID);
    assert_non_null(strstr(err.text, "metadata.name"));
    SL_AUTO_JSON *selector = sl_json_from(
        "{'metadata':{'name':'q'},'spec':{'namespaceSelector':{'matchExpressions':[{'key':'a','operator':'No'}]}}}");
    assert_int_equal(sl_clusterqueue_decode(selector, &q, &err), SL_INVALID);
    assert_non_null(strstr(err.text, "spec.namespaceSelector: matchExpressions[0]"));
}

static void decode__stored_nonsense_is_no_credit(void **s) {
    (void)s;
    SL_AUTO_JSON *j = sl_json_from(
        "{'metadata':{'name':'q'},'spec':{'fairSharing':{'weight':'-1'},'resourceGroups':[{'coveredResources':['cpu'],'"
        "flavors':[{'name':'f',"
        "'resources':[{'name':'cpu','nominalQuota':'-5','borrowingLimit':'-1','lendingLimit':'-1'}]}]}]}}");
    struct sl_clusterqueue *q;
    assert_int_equal(sl_clusterqueue_decode(j, &q, NULL), 0);
    struct sl_quota *quota = &q->groups[0].flavors[0].quotas[0];
    assert_true(quota->nominal == 0 && quota->borrowing_limit == 0 && quota->lending_limit == 0 && q->weight < 0.001);
    sl_clusterqueue_free(q);
    static const char *const fields[] = {"borrowingLimit", "lendingLimit"};
    for (size_t i = 0; i < 2; i++) {
        SL_AUTO_JSON *bad = sl_json_fromf("{'metadata':{'name':'q'},'spec':{'resourceGroups':[{'flavors':[{'resources':"
                                          "[{'name':'cpu','nominalQuota':1,'%s':'x'}]}]}]}}",
                                          fields[i]);
        struct sl_err err = SL_ERR_INIT;
        assert_int_equal(sl_clusterqueue_decode(bad, &q, &err), SL_INVALID);
        assert_non_null(strstr(err.text, fields[i]));
    }
    SL_AUTO_JSON *w = sl_json_from(
        "{'metadata':{'name':'w'},'spec':{'podSets':[{'count':-4}]},'status':{'admission':{'clusterQueue':'q','"
        "podSetAssignments':[{'flavors':"
        "{'cpu':'f','memory':'f'},'resourceUsage':{'cpu':'-3'}}]},'reclaimablePods':[{'name':'main','count':-7}]}}");
    struct sl_workload *workload;
    assert_int_equal(sl_workload_decode(w, &workload, NULL), 0);
    assert_true(workload->podsets[0].count == 0 && workload->reclaimable[0] == 0);
    assert_true(workload->admission->podsets[0].flavors[0].amount == 0 &&
                workload->admission->podsets[0].flavors[1].amount == 0);
    sl_workload_free(workload);
    SL_AUTO_JSON *many = sl_json_from("{'metadata':{'name':'w'},'spec':{}}");
    struct sl_json *podsets = sl_json_make_array(sl_json_mut(many, "spec"), "podSets");
    for (int i = 0; i < 65; i++)
        sl_json_append(podsets, sl_json_new_object());
    assert_int_equal(sl_workload_decode(many, &workload, NULL), SL_INVALID);
}

static void decode__small_kinds(void **s) {
    (void)s;
    SL_AUTO_JSON *lq = sl_json_from(
        "{'metadata':{'name':'l','namespace':'n','uid':'u'},'spec':{'clusterQueue':'q','stopPolicy':'Hold'}}");
    struct sl_localqueue *l;
    assert_int_equal(sl_localqueue_decode(lq, &l, NULL), 0);
    assert_string_equal(l->ns, "n");
    assert_string_equal(l->cq, "q");
    assert_int_equal(l->stop, SL_STOP_HOLD);
    sl_localqueue_free(l);
    SL_AUTO_JSON *ac = sl_json_from("{'metadata':{'name':'c'},'spec':{'controllerName':'x'},'status':{'conditions':[{'"
                                    "type':'Active','status':'True'}]}}");
    struct sl_admissioncheck *c;
    assert_int_equal(sl_admissioncheck_decode(ac, &c, NULL), 0);
    assert_true(c->active);
    assert_string_equal(c->controller, "x");
    sl_admissioncheck_free(c);
    SL_AUTO_JSON *co = sl_json_from("{'metadata':{'name':'c'},'spec':{'parentName':'p','fairSharing':{'weight':0}}}");
    struct sl_cohort *cohort;
    assert_int_equal(sl_cohort_decode(co, &cohort, NULL), 0);
    assert_string_equal(cohort->parent, "p");
    assert_true(cohort->weight < 0.001);
    sl_cohort_free(cohort);
}

static const char workload_text[] =
    "{'metadata':{'name':'w','namespace':'n','uid':'u','generation':3,'creationTimestamp':'2026-01-01T00:00:00Z',"
    "'labels':{'kueue.x-k8s.io/job-uid':'j'},'annotations':{'kueue.x-k8s.io/admission-gated-by':'a/b'}},"
    "'spec':{'queueName':'q','priority':7,'priorityClassRef':{'group':'scheduling.k8s.io','kind':'PriorityClass','name'"
    ":'high'},"
    "'maximumExecutionTimeSeconds':60,'active':false,'podSets':[{'name':'main','count':4,'minCount':2,'template':{'"
    "spec':{'nodeSelector':{'a':'b'},"
    "'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':{'nodeSelectorTerms':[{'"
    "matchExpressions':[{'key':'k','operator':'Gt','values':['3']}]}]}}},"
    "'tolerations':[{'operator':'Exists'}],'containers':[]}}},{'name':'two'}]},"
    "'status':{'conditions':[{'type':'QuotaReserved','status':'True','lastTransitionTime':'2026-01-01T00:00:01Z','"
    "reason':'QuotaReserved'},"
    "{'type':'Evicted','status':'False','reason':'x'}],"
    "'admission':{'clusterQueue':'cq','podSetAssignments':[{'name':'main','count':3,'flavors':{'memory':'f','cpu':'f'},"
    "'resourceUsage':{'cpu':'1500m','memory':'1Gi'}}]},"
    "'requeueState':{'count':2,'requeueAt':'2026-01-01T00:01:00Z'},'reclaimablePods':[{'name':'main','count':1}],"
    "'admissionChecks':[{'name':'c','state':'Retry','lastTransitionTime':'2026-01-01T00:00:02Z','requeueAfterSeconds':"
    "9}],"
    "'accumulatedPastExecutionTimeSeconds':5}}";

static void decode__workload(void **s) {
    (void)s;
    SL_AUTO_JSON *j = sl_json_from(workload_text);
    struct sl_workload *w;
    assert_int_equal(sl_workload_decode(j, &w, NULL), 0);
    assert_string_equal(w->queue, "q");
    assert_string_equal(w->job_uid, "j");
    assert_true(w->pod_priority_class && w->priority == 7 && !w->active && w->gated && !w->deleting);
    assert_int_equal(w->max_exec_s, 60);
    assert_int_equal(w->past_exec_s, 5);
    assert_int_equal(w->created_ms, 1767225600000);
    assert_int_equal(w->n_podsets, 2);
    assert_true(w->podsets[0].count == 4 && w->podsets[0].min_count == 2 && w->podsets[1].count == 1 &&
                w->podsets[1].min_count == -1);
    assert_string_equal(w->podsets[0].node_selector.items[0].value, "b");
    assert_int_equal(w->podsets[0].affinity[0].items[0].op, SL_SEL_GT);
    assert_false(w->podsets[0].affinity_invalid);
    assert_int_equal(w->podsets[0].n_tolerations, 1);
    assert_int_equal(w->quota_reserved.status, SL_TRI_TRUE);
    assert_int_equal(w->quota_reserved.since_ms, 1767225601000);
    assert_int_equal(w->evicted.status, SL_TRI_FALSE);
    assert_int_equal(w->admitted.status, SL_TRI_ABSENT);
    assert_string_equal(w->admission->podsets[0].flavors[0].resource, "cpu");
    assert_int_equal(w->admission->podsets[0].flavors[0].amount, 1500);
    assert_int_equal(w->admission->podsets[0].flavors[1].amount, 1073741824);
    assert_true(w->has_requeue_at && w->requeue_count == 2 && w->requeue_at_ms == 1767225660000);
    assert_true(w->reclaimable[0] == 1 && w->reclaimable[1] == 0);
    assert_true(w->checks[0].state == SL_CHECK_RETRY && w->checks[0].requeue_after_s == 9);

    struct sl_admission *copy = sl_admission_copy(w->admission);
    sl_workload_free(w);
    SL_AUTO_JSON *encoded = sl_admission_encode(copy);
    assert_true(sl_json_equal(encoded, sl_json_path(j, "status.admission")));
    sl_admission_free(copy);
    assert_null(sl_admission_copy(NULL));
}

static void decode__nonsense_never_crashes(void **s) {
    (void)s;
    static const char *const values[] = {"null", "1", "'x'", "[]", "{}", "true", "[[]]", "[null]", "{'a':{}}", "1.5"};
    static const char *const paths[] = {"spec",
                                        "status",
                                        "metadata.labels",
                                        "spec.podSets",
                                        "spec.resourceGroups",
                                        "spec.preemption",
                                        "status.conditions",
                                        "status.admission",
                                        "spec.nodeLabels",
                                        "spec.nodeTaints",
                                        "spec.tolerations"};
    for (size_t p = 0; p < SL_COUNT(paths); p++)
        for (size_t v = 0; v < SL_COUNT(values); v++) {
            SL_AUTO_JSON *j = sl_json_from("{'metadata':{'name':'x'},'spec':{},'status':{}}"),
                         *value = sl_json_fromf("[%s]", values[v]);
            char path[40];
            snprintf(path, sizeof path, "%s", paths[p]);
            char *dot = strchr(path, '.');
            if (dot)
                *dot = 0;
            sl_json_set(dot ? sl_json_mut(j, path) : j, dot ? dot + 1 : path, sl_json_ref(sl_json_at(value, 0)));
            struct sl_workload *w = NULL;
            struct sl_clusterqueue *q = NULL;
            struct sl_flavor *f = NULL;
            struct sl_cohort *c = NULL;
            struct sl_localqueue *l = NULL;
            struct sl_admissioncheck *a = NULL;
            assert_true((sl_workload_decode(j, &w, NULL) == 0) == (w != NULL));
            assert_true((sl_clusterqueue_decode(j, &q, NULL) == 0) == (q != NULL));
            assert_true((sl_flavor_decode(j, &f, NULL) == 0) == (f != NULL));
            assert_true((sl_cohort_decode(j, &c, NULL) == 0) == (c != NULL));
            assert_true((sl_localqueue_decode(j, &l, NULL) == 0) == (l != NULL));
            assert_true((sl_admissioncheck_decode(j, &a, NULL) == 0) == (a != NULL));
            sl_workload_free(w);
            sl_clusterqueue_free(q);
            sl_flavor_free(f);
            sl_cohort_free(c);
            sl_localqueue_free(l);
            sl_admissioncheck_free(a);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode__resourceflavor),
        cmocka_unit_test(decode__clusterqueue),
        cmocka_unit_test(decode__bare_clusterqueue_has_the_defaults),
        cmocka_unit_test(decode__errors_name_the_field),
        cmocka_unit_test(decode__small_kinds),
        cmocka_unit_test(decode__stored_nonsense_is_no_credit),
        cmocka_unit_test(decode__workload),
        cmocka_unit_test(decode__nonsense_never_crashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

"""Who may read /metrics: whoever the API server says, as with every other component of a cluster."""
from manager import NAMESPACE, SCRAPER
from support import until


def test_metrics_are_for_those_who_may_get_them(manager, cluster):
    assert manager.scrape() == (401, "a valid bearer token is needed\n")
    forged = {"Authorization": "Bearer " + "x" * 800}
    assert manager.http(manager.ports["metrics"], "/metrics", True, forged)[0] == 401
    cluster.kubectl("-n", NAMESPACE, "create", "serviceaccount", "passer-by")
    status, text = manager.scrape("passer-by")
    assert status == 403 and "/metrics" in text
    status, text = manager.scrape(SCRAPER)
    assert status == 200 and "\nsluice_leader" in text
    # tokens are nobody's business
    with open(manager.log) as f:
        log = f.read()
    assert forged["Authorization"][-40:] not in log and "eyJ" not in log


def test_metrics_without_an_api_server(manager, cluster, line):
    """a verdict that is known holds for a while; without one the answer says whose fault it is"""
    assert manager.scrape(SCRAPER)[0] == 200
    cluster.kubectl("-n", NAMESPACE, "create", "serviceaccount", "evicted")
    cluster.kubectl("create", "clusterrolebinding", "evicted", "--clusterrole=sluice-metrics-reader", f"--serviceaccount={NAMESPACE}:evicted")
    assert manager.scrape("evicted")[0] == 200
    token = {"Authorization": "Bearer unheard-of"}
    line.refuse()
    try:
        assert until(lambda: manager.http(manager.ports["metrics"], "/metrics", True, token)[0] == 503, "no verdict", 30)
        assert manager.scrape(SCRAPER)[0] == 200
    finally:
        line.resume()
    assert until(lambda: manager.http(manager.ports["metrics"], "/metrics", True, token)[0] == 401, "a verdict again", 60)
    cluster.kubectl("delete", "clusterrolebinding", "evicted")
    assert until(lambda: manager.scrape("evicted")[0] == 403, "a right that was taken away is gone", 90)

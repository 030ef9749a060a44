from tests.unit.plugins import objects as o
def test_it(api, run_module):
    api.add("nodes", o.node("a", "shared", devices="1k"), o.node("b"))
    api.add("pods", o.plugin_pod("a"), o.pod("x","a",o.hca(2), owner="Job/j"))
    r = run_module("allocatable_info", label_selectors=["pool=h20"])
    print(r)
    print(run_module("mode_gate", label_selectors=["pool=h20"]))
    print(run_module("node_labels", label_selectors=["pool=h20"], labels={"a/b":"c"}, diff=True))
    print(run_module("node_labels", nodes=["A.x"], labels={"a/b":"c"}, diff=True))
    api.add("daemonsets", o.daemon_set(desired=1))
    print(run_module("rollout", name="rdma-dp-shared"))
    for x in api.requests: print(x.method, x.path, x.query, x.port)
    assert 0

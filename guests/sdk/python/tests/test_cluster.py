import logging
import os
import tempfile
import unittest

from flyball import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    Controller,
    DeniedError,
    Done,
    Failed,
    Key,
    Mapping,
    NotFoundError,
    RequeueAfter,
    RoutedKey,
    Terminal,
    TerminalError,
    Write,
    describe,
    errors_of,
    field,
    view,
    watch,
)
from flyball.testing import Cluster, Enqueued, delta, refusal

CONFIG_MAP = "v1/ConfigMap"


def config_map(name="a", **parts):
    metadata = {"name": name, "namespace": "default", **parts.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **parts}


@view(CONFIG_MAP)
class Data:
    text: str = field("data.text")


class Strict(Controller):
    """Reads and writes as its test says, under a narrow description."""

    def __init__(self, act=lambda host: None):
        self.act = act

    def describe(self):
        return (
            describe("strict")
            .watch(watch(Data, "metadata.labels").label_selector("app").enqueue(Mapping.itself()))
            .permission(CONFIG_MAP, "create")
            .index("by-text", CONFIG_MAP, "data.text")
            .config("size", "7")
            .counter("done_total", "Reconciles.", "how")
            .import_("signer")
        )

    def reconcile(self, host, request):
        return self.act(host)

    def route(self, host, deltas):
        return [Key.parse(one.watch) if one.new else RoutedKey("gone", delay=2) for one in deltas]


class ClusterTest(unittest.TestCase):
    def do(self, cluster, act):
        found = []
        cluster.reconcile(Strict(lambda host: found.append(act(host))), "a")
        return found[0]

    def test_a_controller_reads_the_declared_fields_in_the_declared_scope(self):
        labelled = {"labels": {"app": "web"}, "annotations": {"b": "c"}}
        cluster = Cluster(config_map(metadata=labelled, data={"text": "hi", "more": "x"}), config_map("other"))
        found = self.do(cluster, lambda host: host.get(CONFIG_MAP, "default", "a"))
        self.assertEqual(found["data"], {"text": "hi"})
        self.assertEqual(sorted(found["metadata"]), ["labels", "name", "namespace", "resourceVersion", "uid"])
        self.assertEqual(self.do(cluster, lambda host: host.get(Data, "default", "a")).text, "hi")
        self.assertIsNone(self.do(cluster, lambda host: host.get(CONFIG_MAP, "default", "other")))
        with self.assertRaises(DeniedError):
            self.do(cluster, lambda host: host.get(CONFIG_MAP, "default", "a", "data.more"))
        with self.assertRaises(DeniedError):
            self.do(cluster, lambda host: host.get("v1/Pod", "default", "a"))

    def test_lists_have_conditions_pages_and_rows(self):
        owned = {"ownerReferences": [{"uid": "1", "controller": True}]}
        cluster = Cluster(
            *(config_map(f"a{n}", metadata={"labels": {"n": str(n)}}, data={"text": f"t{n}"}) for n in range(5)),
            config_map("b", metadata=owned),
        )
        host = cluster.host()

        def names(**conditions):
            return [one["metadata"]["name"] for one in host.list(CONFIG_MAP, "default", **conditions)]

        self.assertEqual(names(), ["a0", "a1", "a2", "a3", "a4", "b"])
        self.assertEqual(names(labels="n in (1,3)"), ["a1", "a3"])
        self.assertEqual(names(labels="n,n!=1,n notin (2)"), ["a0", "a3", "a4"])
        self.assertEqual(names(labels="!n"), ["b"])
        self.assertEqual(names(controller="1"), names(owner="1"))
        self.assertEqual(names(controller="1"), ["b"])
        self.assertEqual(len(names(orphans=True)), 5)
        self.assertEqual(host.count(CONFIG_MAP, labels="n"), 5)
        rows = host.rows(CONFIG_MAP, ["metadata.name", "data.text"], labels="n in (1,2)")
        self.assertEqual([*rows], [["a1", "t1"], ["a2", "t2"]])
        self.assertEqual([one.text for one in host.list(Data, "default", labels="n=4")], ["t4"])
        with self.assertRaises(TypeError):
            names(colour="red")

    def test_an_index_must_be_declared(self):
        cluster = Cluster(config_map(metadata={"labels": {"app": "x"}}, data={"text": "hi"}))
        found = self.do(cluster, lambda host: [*host.list(CONFIG_MAP, index=("by-text", "hi"))])
        self.assertEqual(len(found), 1)
        with self.assertRaisesRegex(ApiError, "no index .other."):
            self.do(cluster, lambda host: [*host.list(CONFIG_MAP, index=("other", "hi"))])

    def test_only_permitted_writes_are_made(self):
        cluster = Cluster()
        self.do(cluster, lambda host: host.create(CONFIG_MAP, "default", {"metadata": {"generateName": "x-"}}))
        self.assertEqual(len(cluster.objects(CONFIG_MAP)), 1)
        line = r'does not ask to delete v1/ConfigMap: add `permission\("v1/ConfigMap", "delete"\)`'
        with self.assertRaisesRegex(DeniedError, line):
            self.do(cluster, lambda host: host.write(Write.delete_name(CONFIG_MAP, "default", "a")))
        self.assertEqual(cluster.writes()[1].error.reason, "Denied")

    def test_a_stale_update_is_a_conflict(self):
        cluster = Cluster(config_map(data={"a": "1", "b": "2"}))
        host = cluster.host()
        found = host.get(CONFIG_MAP, "default", "a")
        host.update(CONFIG_MAP, found, {"data": {"a": None, "c": "3"}})
        self.assertEqual(cluster.object(CONFIG_MAP, "default", "a")["data"], {"b": "2", "c": "3"})
        with self.assertRaises(ConflictError):
            host.update(CONFIG_MAP, found, {"data": {}})
        with self.assertRaises(AlreadyExistsError):
            host.create(CONFIG_MAP, "default", config_map())
        with self.assertRaises(NotFoundError):
            host.patch(CONFIG_MAP, "default", "b", "merge", {})
        stale = {"metadata": {**found["metadata"], "uid": "other"}}
        with self.assertRaises(ConflictError):
            host.delete(CONFIG_MAP, stale)

    def test_spec_and_status_are_written_apart(self):
        cluster = Cluster({"apiVersion": "x.io/v1", "kind": "X", "metadata": {"name": "a", "generation": 1}, "spec": {}})
        host = cluster.host()
        host.update_status("x.io/v1/X", host.get("x.io/v1/X", "", "a"), {"ready": True})
        host.update("x.io/v1/X", host.get("x.io/v1/X", "", "a"), {"spec": {"b": 1}, "status": {"ready": False}})
        found = cluster.object("x.io/v1/X", "", "a")
        self.assertEqual((found["spec"], found["status"]), ({"b": 1}, {"ready": True}))
        self.assertEqual(found["metadata"]["generation"], 2)
        version = found["metadata"]["resourceVersion"]
        host.update_status("x.io/v1/X", found, {"ready": True})
        self.assertEqual(cluster.object("x.io/v1/X", "", "a")["metadata"]["resourceVersion"], version)
        self.assertEqual(cluster.written()[0], "update x.io/v1/X/status a")

    def test_patches_of_all_types_are_applied(self):
        cluster = Cluster(config_map(metadata={"finalizers": ["a"]}, data={"x": "1"}))
        host = cluster.host()
        operations = [
            {"op": "test", "path": "/data/x", "value": "1"},
            {"op": "replace", "path": "/data/x", "value": "2"},
            {"op": "add", "path": "/metadata/finalizers/-", "value": "b"},
            {"op": "remove", "path": "/metadata/finalizers/0"},
        ]
        host.patch(CONFIG_MAP, "default", "a", "json", operations)
        host.patch(CONFIG_MAP, "default", "a", "strategic", {"metadata": {"finalizers": ["c"]}})
        found = cluster.object(CONFIG_MAP, "default", "a")
        self.assertEqual((found["data"], found["metadata"]["finalizers"]), ({"x": "2"}, ["b", "c"]))
        with self.assertRaisesRegex(ApiError, "the test of /data/x failed"):
            host.patch(CONFIG_MAP, "default", "a", "json", operations[:1])
        self.assertTrue(cluster.writes()[-1].error.is_invalid())

    def test_an_applied_field_has_an_owner(self):
        cluster = Cluster()
        host = cluster.host()
        body = {"metadata": {"name": "a", "namespace": "default"}, "data": {"x": "1", "y": "1"}}
        host.apply(CONFIG_MAP, body, "one")
        host.apply(CONFIG_MAP, {**body, "data": {"y": "1"}}, "one")
        self.assertEqual(cluster.object(CONFIG_MAP, "default", "a")["data"], {"y": "1"})
        other = {**body, "data": {"y": "2"}}
        with self.assertRaisesRegex(ConflictError, 'conflict with "one": .data.y'):
            host.apply(CONFIG_MAP, other, "two")
        host.apply(CONFIG_MAP, other, "two", force=True)
        self.assertEqual(cluster.object(CONFIG_MAP, "default", "a")["data"], {"y": "2"})
        host.apply(CONFIG_MAP, {**body, "data": {}}, "one")
        self.assertEqual(cluster.object(CONFIG_MAP, "default", "a")["data"], {"y": "2"})

    def test_a_batch_starts_slowly_and_stops_after_an_error(self):
        def run(**options):
            cluster = Cluster(config_map("c1"))
            writes = (Write.create(CONFIG_MAP, "default", config_map(f"c{n}")) for n in range(4))
            results = cluster.host().batch(**options).extend(writes).run()
            return [error.reason for error in errors_of(results)], len(cluster.objects(CONFIG_MAP))

        self.assertEqual(run(), (["AlreadyExists"], 4))
        self.assertEqual(run(slow_start=1), (["AlreadyExists", "Skipped"], 3))
        self.assertEqual(run(stop_on_error=True), (["AlreadyExists", "Skipped", "Skipped"], 2))

    def test_an_answer_has_the_fields_asked_for(self):
        write = Write.create(CONFIG_MAP, "default", config_map(data={"x": "1"}))
        host = Cluster().host()
        self.assertEqual(host.write(write.returning("data"))["data"], {"x": "1"})
        self.assertIsNone(host.write(Write.delete_name(CONFIG_MAP, "default", "a")))

    def test_live_reads_ask_the_server(self):
        cluster = Cluster(*(config_map(f"a{n:04}") for n in range(501)))
        cluster.put_live(config_map("a0000", data={"x": "live"}))
        cluster.remove_live(CONFIG_MAP, "default", "a0001")
        cluster.put_raw("/version?pretty=a%20b", {"major": "1"})
        live = cluster.host().live
        self.assertEqual(live.get(CONFIG_MAP, "default", "a0000")["data"], {"x": "live"})
        self.assertIsNone(live.get(CONFIG_MAP, "default", "a0001"))
        self.assertEqual(len([*live.list(CONFIG_MAP, "default")]), 500)
        self.assertEqual(live.raw("/version", pretty="a b"), {"major": "1"})
        results = live.batch().get(CONFIG_MAP, "default", "a0002").get(CONFIG_MAP, "default", "none").run()
        self.assertEqual(results[0]["metadata"]["name"], "a0002")
        self.assertTrue(results[1].is_not_found())
        self.assertEqual(cluster.live_reads()[0], "get v1/ConfigMap default/a0000")

    def test_collections_are_deleted_by_selectors(self):
        cluster = Cluster(*(config_map(name, metadata={"labels": {"app": name}}) for name in "abc"))
        cluster.host().write(Write.delete_collection(CONFIG_MAP, "default", labels="app in (a,b)"))
        self.assertEqual([one["metadata"]["name"] for one in cluster.objects(CONFIG_MAP)], ["c"])
        self.assertEqual(cluster.written(), ["deletecollection v1/ConfigMap default"])

    def test_nothing_is_created_in_a_namespace_that_is_being_deleted(self):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "finalizers": ["x"]}}
        cluster = Cluster(namespace)
        cluster.delete("v1/Namespace", "", "default")
        with self.assertRaises(ApiError) as raised:
            cluster.host().create(CONFIG_MAP, "default", config_map())
        self.assertTrue(raised.exception.is_namespace_terminating())

    def test_a_failure_is_injected_once(self):
        cluster = Cluster()
        cluster.fail("create", CONFIG_MAP, refusal(500, "InternalError", "no luck"), nth=2)
        host = cluster.host()
        host.create(CONFIG_MAP, "default", config_map("a"))
        with self.assertRaises(ApiError) as raised:
            host.create(CONFIG_MAP, "default", config_map("b"))
        self.assertEqual((raised.exception.effect, str(raised.exception)), ("unknown", "no luck (500 InternalError)"))
        host.create(CONFIG_MAP, "default", config_map("b"))

    def test_the_other_imports_are_recorded(self):
        cluster = Cluster(config_map())
        cluster.set_config("size", "8")
        cluster.add_key("k")

        def act(host):
            host.queue.add(Key("a", "b"))
            host.queue.add_after("c", 1.5)
            host.metrics.add("done_total", "well")
            self.assertEqual(host.config("size"), "8")
            self.assertEqual(host.memo.get("m", 0), 0)
            version = host.memo.put("m", {"x": 1}, ttl=10)
            with self.assertRaises(ConflictError):
                host.memo.put("m", 2, version=version + 1)
            self.assertEqual(host.memo.get("m"), {"x": 1})
            token = host.signer.sign_jwt("k", {"sub": "me"})
            self.assertEqual(host.signer.verify_jwt("k", token), {"sub": "me"})
            about = cluster.object(CONFIG_MAP, "default", "a")
            host.emit(CONFIG_MAP, about, "Normal", "Did", "did it", action="Do", related=(CONFIG_MAP, about))
            self.assertEqual(len(host.random_bytes(3)), 3)

        self.do(cluster, act)
        self.assertEqual(cluster.enqueued(), [Enqueued("", "a/b"), Enqueued("", "c", 1500)])
        self.assertEqual(cluster.metrics(), [("add", "done_total", ["well"], 1)])
        event = cluster.recorded_events()[0]
        self.assertEqual((str(event), event.options["related"]["name"]), ("Normal Did did it", "a"))
        cluster.advance(11)
        self.assertIsNone(cluster.host().memo.get("m"))

    def test_discovery_lists_served_kinds(self):
        cluster = Cluster()
        cluster.serve("apps/v1/Deployment", "deployments", True, "list", status=["update"])
        cluster.serve("apps/v1beta1/Deployment", "deployments", True)
        first, second = cluster.host().kinds().kinds
        self.assertEqual((first.preferred, second.preferred), (True, False))
        self.assertEqual(first.subresources, {"status": ["update"]})
        with self.assertRaises(DeniedError):
            self.do(cluster, lambda host: host.kinds())

    def test_deltas_are_routed(self):
        found = config_map()
        routed = Cluster().route(Strict(), delta("v1/A", None, found), delta("v1/B", found, None))
        self.assertEqual(routed, [RoutedKey(Key("v1", "A")), RoutedKey("gone", delay=2)])


class OutcomeTest(unittest.TestCase):
    def outcome(self, act):
        self.cluster = Cluster()
        return self.cluster.call(Strict(act), "a")

    def test_results_and_exceptions_become_outcomes(self):
        def fail(error):
            raise error

        self.assertEqual(self.outcome(lambda host: None), Done())
        self.assertEqual(self.outcome(lambda host: RequeueAfter(3)), RequeueAfter(3))
        self.assertEqual(self.outcome(lambda host: Failed("no")), Failed("no"))
        self.assertEqual(self.outcome(lambda host: fail(TerminalError("never"))), Terminal("never"))
        error = refusal(409, "Conflict", "it has changed")
        self.assertEqual(self.outcome(lambda host: fail(error)), Failed("it has changed (409 Conflict)"))

    def test_an_exception_is_logged_with_file_and_line(self):
        def act(host):
            try:
                {}["x"]
            except KeyError as error:
                raise RuntimeError("bad") from error

        outcome = self.outcome(act)
        self.assertRegex(outcome.message, r"^RuntimeError: bad \(.*test_cluster.py:\d+ in .*act\)$")
        level, message, fields = self.cluster.logged()[-1]
        self.assertEqual(level, "error")
        self.assertTrue(message.startswith("reconcile failed: RuntimeError: bad ("), message)
        self.assertRegex(fields["traceback"], r"(?s)RuntimeError: bad\n  at .*\ncaused by KeyError: 'x'\n  at .*act")

    def test_a_deep_traceback_is_cut(self):
        def deep(host):
            deep(host)

        self.assertIn("RecursionError", self.outcome(deep).message)
        lines = self.cluster.logged()[-1].fields["traceback"].splitlines()
        self.assertLess(len(lines), 30)
        self.assertTrue(any(line.endswith(" more") for line in lines))

    def test_another_result_is_an_error(self):
        self.assertIn("which is no Outcome", self.outcome(lambda host: 5).message)

    def test_the_log_has_levels_and_fields(self):
        def act(host):
            logging.getLogger("x").warning("slow %d", 3, extra={"took": 5})

        self.outcome(act)
        self.assertEqual(self.cluster.logged(), [("warn", "slow 3", {"took": "5"})])


WEBS = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: webs.a.b}
spec:
  group: a.b
  scope: Namespaced
  names: {kind: Web, plural: webs}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                host: {type: string}
                replicas: {type: integer, default: 1}
"""


class DefinitionTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file = os.path.join(folder.name, "crd.yaml")
        with open(file, "w") as opened:
            opened.write(WEBS)
        self.cluster = Cluster(define=file)

    def web(self, **spec):
        return {"apiVersion": "a.b/v1", "kind": "Web", "metadata": {"name": "w", "namespace": "a"}, "spec": spec}

    def test_a_field_that_the_definition_lacks_is_dropped_with_a_warning(self):
        self.cluster.host().create("a.b/v1/Web", "a", self.web(host="x", replica=2))
        stored = self.cluster.object("a.b/v1/Web", "a", "w")
        self.assertEqual(stored["spec"], {"host": "x", "replicas": 1})
        [written] = self.cluster.writes()
        self.assertEqual(written.warnings, ['unknown field "spec.replica"'])
        self.assertEqual(str(written), 'create a.b/v1/Web a/w: warning: unknown field "spec.replica"')
        [logged] = self.cluster.logged()
        self.assertEqual((logged.level, logged.message), ("warn", 'the API server warns: unknown field "spec.replica"'))

    def test_a_value_that_the_definition_does_not_allow_is_refused(self):
        with self.assertRaises(ApiError) as raised:
            self.cluster.host().create("a.b/v1/Web", "a", self.web(host=1))
        self.assertIn("spec.host in body must be of type string", str(raised.exception))

    def test_an_object_of_the_test_must_fit(self):
        with self.assertRaises(Exception) as raised:
            self.cluster.put(self.web(replica=2))
        self.assertIn('unknown field "spec.replica"', str(raised.exception))

    def test_a_description_reads_only_fields_of_the_definition(self):
        class Reader(Controller):
            def describe(self):
                return describe("reader").watch(watch("a.b/v1/Web", "spec.replica").enqueue(Mapping.itself()))

            def reconcile(self, host, request):
                return None

        with self.assertRaises(Exception) as raised:
            self.cluster.reconcile(Reader(), "a/w")
        self.assertIn("reads `spec.replica` of a.b/v1/Web", str(raised.exception))

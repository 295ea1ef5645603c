import unittest
from datetime import timedelta

from flyball import Key, Mapping, Reference, describe, field, view, watch, watch_discovered


@view("apps/v1/Deployment", "labels")
class Deployment:
    """A deployment, as far as it matters here."""

    replicas: int = field("spec.replicas", default=1)
    images: list = field("spec.template.spec.containers[*].image")
    ready: str = field("status.conditions[type=Ready].status", default="Unknown")
    note: str = field("metadata.annotations['example.com/note']")


class DescribeTest(unittest.TestCase):
    def test_a_description_is_the_hosts_document(self):
        made = (
            describe("many", "1.2.3")
            .watch(watch(Deployment, "spec.paused").when("generation").when_at("status").enqueue(Mapping.itself()))
            .watch(watch("v1/Pod").namespace("a").label_selector("b").field_selector("c=d").metadata_only())
            .watch(watch_discovered(30, verbs=("delete",), excluded=("v1/Event",), config="period", errors="failures"))
            .queue("fast", base_delay=0.001, max_retries=3, qps=0)
            .index("by-node", "v1/Pod", "spec.nodeName")
            .ticker("all", timedelta(minutes=1), config="tick")
            .permission("*", "delete", "delete")
            .permission_on(Deployment, "status", "update")
            .in_namespaces("b", "a")
            .import_("discovery")
            .config("period", "30s", "Time between two rounds.")
            .counter("failures", "Failures.", "code")
            .histogram("seconds", "Durations.", [0.1, 1])
            .concurrency(4)
            .memo_schema(2)
        )
        self.assertEqual(
            made.complete(),
            {
                "format": 1,
                "name": "many",
                "version": "1.2.3",
                "watches": [
                    {
                        "kind": "apps/v1/Deployment",
                        "fields": [*Deployment.FIELDS, "spec.paused"],
                        "changes": ["generation", {"path": "status"}],
                        "map": [{"to": "itself"}],
                    },
                    {
                        "kind": "v1/Pod",
                        "fields": [],
                        "namespace": "a",
                        "labelSelector": "b",
                        "fieldSelector": "c=d",
                        "metadataOnly": True,
                    },
                    {
                        "discovered": {
                            "periodMs": 30000,
                            "verbs": ["delete"],
                            "except": ["v1/Event"],
                            "config": "period",
                            "errors": "failures",
                        }
                    },
                ],
                "queues": [{"name": "fast", "baseDelayMs": 1, "maxRetries": 3, "qps": 0}],
                "indexes": [{"name": "by-node", "kind": "v1/Pod", "path": "spec.nodeName"}],
                "tickers": [{"key": "all", "periodMs": 60000, "config": "tick"}],
                "permissions": [
                    {"kind": "*", "verbs": ["delete"]},
                    {
                        "kind": "apps/v1/Deployment",
                        "subresource": "status",
                        "verbs": ["update"],
                        "namespaces": ["a", "b"],
                    },
                ],
                "imports": ["discovery"],
                "config": {"period": {"default": "30s", "help": "Time between two rounds."}},
                "metrics": [
                    {"name": "failures", "help": "Failures.", "labels": ["code"], "type": "counter"},
                    {"name": "seconds", "help": "Durations.", "labels": [], "type": {"histogram": [0.1, 1]}},
                ],
                "concurrency": 4,
                "memoSchema": 2,
            },
        )

    def test_a_description_without_a_queue_has_one_of_its_name(self):
        self.assertEqual(describe("a").complete()["queues"], [{"name": "a"}])

    def test_mappings_have_conditions(self):
        mapping = (
            Mapping.selecting("v1/Service", "spec.selector")
            .whose("spec.type", "ClusterIP")
            .on("added", "deleted")
            .orphans()
            .deleting()
            .having("a", "b")
            .having_any("c", "d")
            .unless("e")
            .unless("f", "g")
            .queue("slow")
            .after(1.5)
        )
        self.assertEqual(
            mapping.document,
            {
                "to": "selecting",
                "kind": "v1/Service",
                "path": "spec.selector",
                "whose": [{"path": "spec.type", "value": "ClusterIP"}],
                "on": ["added", "deleted"],
                "orphans": True,
                "deleting": True,
                "having": [{"path": "a", "value": "b"}],
                "havingAny": ["c", "d"],
                "unless": [{"path": "e"}, {"path": "f", "value": "g"}],
                "queue": "slow",
                "delayMs": 1500,
            },
        )
        with self.assertRaisesRegex(ValueError, "narrows `selecting`"):
            Mapping.itself().whose("a", "b")
        named = Mapping.named("spec.claim").of("v1/PersistentVolumeClaim").missing().while_any("v1/Secret")
        self.assertEqual(
            named.document,
            {
                "to": "named",
                "path": "spec.claim",
                "namespaced": True,
                "kind": "v1/PersistentVolumeClaim",
                "missing": True,
                "whileAny": ["v1/Secret"],
            },
        )
        for wrong in (lambda: Mapping.itself().of("v1/Secret"), lambda: Mapping.itself().missing()):
            with self.assertRaisesRegex(ValueError, "narrows `named`"):
                wrong()

    def test_a_misspelt_kind_is_an_error(self):
        for wrong in (lambda: watch("Pod"), lambda: Mapping.owners("a/b/c/d"), lambda: describe("a").permission("Pod", "get")):
            with self.assertRaisesRegex(ValueError, "kind"):
                wrong()


class ViewTest(unittest.TestCase):
    def test_a_view_has_the_values_at_its_paths(self):
        found = Deployment.of(
            {
                "metadata": {"name": "web", "annotations": {"example.com/note": "n"}},
                "spec": {"replicas": 3, "template": {"spec": {"containers": [{"image": "a"}, {}, {"image": "b"}]}}},
                "status": {"conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]},
            }
        )
        self.assertEqual(found.metadata["name"], "web")
        self.assertEqual((found.replicas, found.images, found.ready, found.note), (3, ["a", "b"], "True", "n"))

    def test_absent_fields_have_their_defaults(self):
        found = Deployment.of({"metadata": {"name": "web"}, "spec": {"replicas": None}})
        self.assertEqual((found.replicas, found.images, found.ready, found.note), (1, [], "Unknown", None))
        found.images.append("a")
        self.assertEqual(Deployment.of({"metadata": {}}).images, [])

    def test_a_view_declares_its_fields(self):
        self.assertEqual(Deployment.FIELDS[:2], ["metadata.labels", "spec.replicas"])


class KeyTest(unittest.TestCase):
    def test_keys_are_parsed_and_written(self):
        for text, key in (("a/b", Key("a", "b")), ("b", Key("", "b")), ("", Key("", ""))):
            self.assertEqual((Key.parse(text), str(key)), (key, text))

    def test_references_are_parsed(self):
        self.assertEqual(Reference.parse("apps/v1/ReplicaSet/a/b~1c/1"), Reference("apps/v1/ReplicaSet", "a", "b/c", "1"))
        self.assertEqual(Reference.parse("v1/Node//n/1"), Reference("v1/Node", "", "n", "1"))
        with self.assertRaises(ValueError):
            Reference.parse("a/b")

import unittest

from flyball import ConflictError, Done, conditions
from flyball.testing import Cluster, refusal

from greeter import CONFIG_MAP, FINALIZER, GREETING, Greeter


def greeting(**metadata):
    return {
        "apiVersion": "greeter.flyball.dev/v1",
        "kind": "Greeting",
        "metadata": {"name": "hello", "namespace": "a", **metadata},
        "spec": {"text": "Hello, world"},
    }


class GreeterTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(greeting())
        self.written = []

    def reconcile(self):
        """Reconciles as often as the greeter's own writes enqueue the key."""
        written = None
        while written != []:
            self.cluster.reconcile(Greeter(), "a/hello")
            written = self.cluster.written()
            self.written += written

    def ready(self):
        status = self.cluster.object(GREETING, "a", "hello")["status"]
        return conditions.get(status["conditions"], "Ready")

    def test_a_greeting_gets_a_config_map_a_finalizer_a_status_and_an_event(self):
        self.reconcile()
        self.assertEqual(
            self.written,
            [f"update {GREETING} a/hello", f"create {CONFIG_MAP} a/hello", f"update {GREETING}/status a/hello"],
        )
        stored = self.cluster.object(GREETING, "a", "hello")
        self.assertEqual(stored["metadata"]["finalizers"], [FINALIZER])
        self.assertEqual(stored["status"]["observedGeneration"], 1)
        self.assertEqual((self.ready()["status"], self.ready()["reason"]), ("True", "Greeted"))
        made = self.cluster.object(CONFIG_MAP, "a", "hello")
        self.assertEqual(made["data"], {"text": "Hello, world"})
        owner = made["metadata"]["ownerReferences"][0]
        self.assertEqual((owner["kind"], owner["name"], owner["controller"]), ("Greeting", "hello", True))
        self.assertEqual(self.cluster.events(), ["Normal Greeted wrote ConfigMap hello"])

    def test_nothing_is_written_twice(self):
        self.reconcile()
        self.written.clear(), self.cluster.events()
        self.reconcile()
        self.assertEqual(self.written, [])
        self.assertEqual(self.cluster.events(), [])

    def test_changed_data_is_corrected(self):
        self.reconcile()
        self.written.clear(), self.cluster.events()
        self.cluster.edit(CONFIG_MAP, "a", "hello", {"data": {"text": "Bye"}})
        self.reconcile()
        self.assertEqual(self.written, [f"update {CONFIG_MAP} a/hello"])
        self.assertEqual(self.cluster.object(CONFIG_MAP, "a", "hello")["data"]["text"], "Hello, world")
        self.assertEqual(self.cluster.events(), ["Normal Greeted wrote ConfigMap hello"])

    def test_a_new_generation_is_observed(self):
        self.reconcile()
        self.cluster.edit(GREETING, "a", "hello", {"metadata": {"generation": 2}, "spec": {"text": "Good day"}})
        self.reconcile()
        self.assertEqual(self.cluster.object(GREETING, "a", "hello")["status"]["observedGeneration"], 2)
        self.assertEqual(self.ready()["observedGeneration"], 2)
        self.assertEqual(self.cluster.object(CONFIG_MAP, "a", "hello")["data"]["text"], "Good day")

    def test_a_name_that_is_taken_is_reported_once_and_left_alone(self):
        taken = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "hello", "namespace": "a"},
            "data": {"b": "c"},
        }
        self.cluster.put(taken)
        self.reconcile()
        self.assertEqual((self.ready()["status"], self.ready()["reason"]), ("False", "NameTaken"))
        self.assertEqual(len(self.cluster.events()), 1)
        self.reconcile()
        self.assertEqual(self.cluster.events(), [])
        self.assertEqual(self.cluster.object(CONFIG_MAP, "a", "hello")["data"], {"b": "c"})
        self.cluster.remove(CONFIG_MAP, "a", "hello")
        self.reconcile()
        self.assertEqual(self.ready()["status"], "True")

    def test_a_deleted_greeting_takes_its_config_map_with_it(self):
        self.reconcile()
        self.written.clear()
        self.cluster.delete(GREETING, "a", "hello")
        self.reconcile()
        self.assertEqual(self.written, [f"delete {CONFIG_MAP} a/hello", f"update {GREETING} a/hello"])
        self.assertIsNone(self.cluster.object(CONFIG_MAP, "a", "hello"))
        self.assertIsNone(self.cluster.object(GREETING, "a", "hello"))

    def test_a_deleted_greeting_leaves_a_config_map_of_another_owner(self):
        self.cluster.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hello", "namespace": "a"}})
        self.reconcile()
        self.cluster.delete(GREETING, "a", "hello")
        self.reconcile()
        self.assertIsNotNone(self.cluster.object(CONFIG_MAP, "a", "hello"))
        self.assertIsNone(self.cluster.object(GREETING, "a", "hello"))

    def test_a_conflict_fails_the_reconcile_and_the_next_one_succeeds(self):
        self.cluster.fail("update", GREETING, refusal(409, "Conflict", "it has changed"))
        with self.assertRaises(ConflictError):
            self.reconcile()
        self.assertEqual(self.cluster.call(Greeter(), "a/hello"), Done())
        self.reconcile()
        self.assertEqual(self.ready()["status"], "True")

    def test_an_object_that_is_gone_needs_nothing(self):
        self.cluster.reconcile(Greeter(), "a/other")
        self.assertEqual(self.cluster.written(), [])


if __name__ == "__main__":
    unittest.main()

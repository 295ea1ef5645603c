import unittest
from datetime import datetime, timezone

from flyball import conditions, finalizers, labels, owners
from flyball.testing import Cluster

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "b", "finalizers": ["x.io/other"]}}
AT = datetime(2026, 1, 2, 3, 4, 5, 6, timezone.utc)


class FinalizersTest(unittest.TestCase):
    def test_a_finalizer_is_added_last_and_removed_alone(self):
        cluster = Cluster(POD)
        found = cluster.object("v1/Pod", "b", "a")
        self.assertTrue(finalizers.is_missing(found, "x.io/ours"))
        cluster.host().write(finalizers.add("v1/Pod", found, "x.io/ours"))
        held = cluster.object("v1/Pod", "b", "a")
        self.assertEqual(held["metadata"]["finalizers"], ["x.io/other", "x.io/ours"])
        cluster.host().write(finalizers.remove("v1/Pod", held, "x.io/other"))
        cluster.delete("v1/Pod", "b", "a")
        held = cluster.object("v1/Pod", "b", "a")
        self.assertTrue(finalizers.is_held(held, "x.io/ours"))
        self.assertFalse(finalizers.is_held(held, "x.io/other"))
        cluster.host().write(finalizers.remove("v1/Pod", held, "x.io/ours"))
        self.assertIsNone(cluster.object("v1/Pod", "b", "a"))


class ConditionsTest(unittest.TestCase):
    def test_the_transition_time_moves_only_with_the_status(self):
        all = [{"type": "Other", "status": "True"}]
        self.assertTrue(conditions.set(all, conditions.condition("Ready", False, "Starting", "", 1), AT))
        self.assertEqual(all[1]["lastTransitionTime"], "2026-01-02T03:04:05Z")
        self.assertEqual((all[1]["status"], all[1]["observedGeneration"]), ("False", 1))
        later = AT.replace(year=2027)
        self.assertFalse(conditions.set(all, conditions.condition("Ready", False, "Starting", "", 1), later))
        self.assertTrue(conditions.set(all, conditions.condition("Ready", False, "Waiting", "", 1), later))
        self.assertEqual(all[1]["lastTransitionTime"], "2026-01-02T03:04:05Z")
        self.assertTrue(conditions.set(all, conditions.condition("Ready", True, "Up"), later))
        self.assertEqual(all[1]["lastTransitionTime"], "2027-01-02T03:04:05Z")
        self.assertTrue(conditions.is_true(all, "Ready"))
        self.assertTrue(conditions.remove(all, "Ready"))
        self.assertFalse(conditions.remove(all, "Ready"))
        self.assertEqual([one["type"] for one in all], ["Other"])


class OwnersTest(unittest.TestCase):
    def test_the_controller_is_the_owner_with_controller_set(self):
        owner = {"metadata": {"name": "web", "uid": "2"}}
        reference = owners.controller_reference("apps/v1/ReplicaSet", owner)
        self.assertEqual(
            reference,
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "web",
                "uid": "2",
                "controller": True,
                "blockOwnerDeletion": True,
            },
        )
        node = owners.owner_reference("v1/Node", {"metadata": {"name": "n", "uid": "1"}})
        pod = {"metadata": {"ownerReferences": [node, reference]}}
        self.assertTrue(owners.is_controlled_by(pod, owner))
        self.assertEqual(owners.controller(pod), reference)
        self.assertFalse(owners.is_controlled_by({"metadata": {"ownerReferences": [node]}}, owner))
        self.assertTrue(owners.is_of(reference, "apps/v1beta1/ReplicaSet"))
        self.assertFalse(owners.is_of(reference, "v1/ReplicaSet"))


class LabelsTest(unittest.TestCase):
    def test_selectors_are_written_as_text(self):
        expressions = [
            {"key": "tier", "operator": "In", "values": ["a", "b"]},
            {"key": "tier", "operator": "NotIn", "values": ["c"]},
            {"key": "app", "operator": "Exists"},
            {"key": "canary", "operator": "DoesNotExist"},
        ]
        selector = labels.selector({"matchLabels": {"app": "web"}, "matchExpressions": expressions})
        self.assertEqual(selector, "app=web,tier in (a,b),tier notin (c),app,!canary")
        self.assertEqual(labels.selector({"b": "2", "a": "1"}), "a=1,b=2")

    def test_labels_and_annotations_have_defaults(self):
        self.assertEqual(labels.label({"metadata": {"labels": {"a": "b"}}}, "a"), "b")
        self.assertEqual(labels.annotation({"metadata": {}}, "a", "c"), "c")

"""Unit tests: `python3 -m unittest` in the project's folder. They need no sandbox and no installed package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "guests/sdk/python"))
import unittest

from flyball import ApiError, ConflictError, RequeueAfter
from flyball.testing import Cluster, refusal

from secret_mirror import BATCH, FROM, MIRROR, OF, ROLE, SOURCE, SOURCES, TO, SecretMirror

SECRET, NAMESPACE = "v1/Secret", "v1/Namespace"
KEY = "vault/db"
#: `Grüezi` in Base64.
DATA = {"password": "R3LDvGV6aQ=="}


def source(to, type="Opaque", **more):
    metadata = {"name": "db", "namespace": "vault", "labels": {ROLE: SOURCE, "team": "a"}, "annotations": {TO: to}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": type, "data": DATA, **more}


def secret(namespace, **metadata):
    """A Secret with the source's name."""
    meta = {"name": "db", "namespace": namespace, **metadata}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque", "data": {"mine": "eA=="}}


def namespace(name, consent="vault"):
    annotations = {} if consent is None else {FROM: consent}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": annotations}}


class SecretMirrorTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(*(namespace(name) for name in ("vault", "a", "b")))

    def reconcile(self):
        return self.cluster.reconcile(SecretMirror(), KEY)

    def mirrored(self, to="a, b"):
        """Puts the source, and makes its mirrors."""
        self.cluster.put(source(to))
        self.reconcile()
        self.cluster.written(), self.cluster.events()

    def mirror(self, where="a"):
        return self.cluster.object(SECRET, where, "db")

    def edit(self, where, change):
        self.cluster.edit(SECRET, where, "db", change)

    def test_a_source_is_copied_to_the_namespaces_that_it_names(self):
        self.cluster.put(source("b,a  vault"))
        self.assertIsNone(self.reconcile())
        self.assertEqual(self.cluster.written(), ["create v1/Secret a/db", "create v1/Secret b/db"])
        self.assertEqual(self.cluster.events(), ["Normal Mirrored wrote mirrors in a, b"])
        mirror = self.mirror()
        self.assertEqual((mirror["type"], mirror["data"]), ("Opaque", DATA))
        self.assertEqual(mirror["metadata"]["labels"], {ROLE: MIRROR})
        self.assertEqual(mirror["metadata"]["annotations"], {OF: KEY})

    def test_nothing_is_written_twice(self):
        self.mirrored()
        self.reconcile()
        self.assertEqual(self.cluster.written(), [])
        self.assertEqual(self.cluster.events(), [])

    def test_changed_data_is_followed_and_corrected(self):
        self.mirrored("a")
        self.edit("vault", {"data": {"password": None, "user": "bWU="}})
        self.reconcile()
        self.assertEqual(self.mirror()["data"], {"user": "bWU="})
        self.edit("a", {"data": {"user": "eA==", "more": "eA=="}})
        self.reconcile()
        self.assertEqual(self.mirror()["data"], {"user": "bWU="})
        self.assertEqual(self.cluster.written(), ["update v1/Secret a/db"] * 2)

    def test_a_secret_without_data_is_copied_too(self):
        self.cluster.put(source("a", data=None))
        self.reconcile()
        self.reconcile()
        self.assertEqual(self.cluster.written(), ["create v1/Secret a/db"])

    def test_a_source_that_goes_takes_its_mirrors_with_it(self):
        for go in (
            lambda: self.cluster.remove(SECRET, "vault", "db"),
            lambda: self.edit("vault", {"metadata": {"labels": {ROLE: None}}}),
            lambda: self.edit("vault", {"metadata": {"annotations": {TO: None}}}),
            lambda: self.edit("vault", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        ):
            self.mirrored()
            go()
            self.reconcile()
            self.assertEqual(self.cluster.written(), ["delete v1/Secret a/db", "delete v1/Secret b/db"])

    def test_a_namespace_that_is_no_longer_named_loses_its_mirror(self):
        self.mirrored()
        self.edit("vault", {"metadata": {"annotations": {TO: "b"}}})
        self.reconcile()
        self.assertEqual(self.cluster.written(), ["delete v1/Secret a/db"])

    def test_a_namespace_has_to_allow_it(self):
        for consent in (None, "", "vaults, other", "vaul"):
            self.cluster.put(namespace("a", consent))
            self.cluster.put(source("a"))
            self.reconcile()
            self.assertEqual(self.cluster.written(), [])
            message = f"these namespaces do not have the annotation {FROM} with vault: a"
            self.assertEqual(self.cluster.events(), [f"Warning MirrorRefused {message}"])
        self.cluster.put(namespace("a", "other,vault"))
        self.reconcile()
        self.assertEqual(self.cluster.written(), ["create v1/Secret a/db"])

    def test_a_namespace_that_withdraws_its_consent_loses_the_mirror(self):
        self.mirrored()
        self.cluster.put(namespace("a", None))
        self.reconcile()
        self.assertEqual(self.cluster.written(), ["delete v1/Secret a/db"])

    def test_a_star_means_all_that_allow_it(self):
        self.cluster.put(namespace("c", None))
        self.cluster.put(namespace("d", "*"))
        self.cluster.put(source("*"))
        self.reconcile()
        self.assertEqual(self.cluster.written(), [f"create v1/Secret {name}/db" for name in "abd"])
        self.assertEqual(self.cluster.events(), ["Normal Mirrored wrote mirrors in a, b, d"])

    def test_a_namespace_that_is_missing_or_ends_gets_none(self):
        ending = namespace("a")
        ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        self.cluster.put(ending)
        self.cluster.put(source("a, nowhere, größe"))
        self.reconcile()
        self.assertEqual(self.cluster.written(), [])
        self.assertTrue(self.cluster.events()[0].endswith(": a, größe, nowhere"))

    def test_a_namespace_that_ends_meanwhile_is_no_failure(self):
        self.cluster.put(source("a"))
        self.cluster.fail("create", SECRET, refusal(403, "NamespaceTerminating", "it ends"))
        self.assertIsNone(self.reconcile())
        self.assertEqual(self.cluster.events(), [])

    def test_a_secret_that_is_no_mirror_is_never_written(self):
        self.cluster.put(secret("a"))
        self.cluster.put(source("a, b"))
        self.assertEqual(self.reconcile(), RequeueAfter(300))
        self.assertEqual(self.mirror()["data"], {"mine": "eA=="})
        self.assertEqual(self.mirror("b")["data"], DATA)
        taken = "Warning NameTaken a Secret of this name, which is no mirror of it, exists in a"
        self.assertEqual(self.cluster.events(), ["Normal Mirrored wrote mirrors in b", taken])
        self.cluster.remove(SECRET, "vault", "db")
        self.cluster.written()
        self.reconcile()
        self.assertEqual(self.cluster.written(), ["delete v1/Secret b/db"])

    def test_mirrors_of_other_sources_and_copies_under_other_names_are_left_alone(self):
        self.cluster.put(secret("a", labels={ROLE: MIRROR}, annotations={OF: "other/db"}))
        self.cluster.put(secret("b", name="copy", labels={ROLE: MIRROR}, annotations={OF: KEY}))
        self.cluster.put(secret("vault", labels={ROLE: MIRROR}, annotations={OF: KEY}))
        self.reconcile()
        self.assertEqual(self.cluster.written(), [])

    def test_types_that_give_credentials_are_not_copied(self):
        for type in ("kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"):
            self.cluster.put(source("a", type))
            self.reconcile()
            self.assertEqual(self.cluster.written(), [])
            self.assertEqual(self.cluster.events(), [f"Warning MirrorRefused a Secret of the type {type} is not copied"])

    def test_what_the_api_does_not_let_change_is_deleted_and_created_again(self):
        for change in ({"type": "kubernetes.io/tls"}, {"immutable": True, "data": {"password": "eA=="}}):
            self.mirrored("a")
            self.edit("a", change)
            self.reconcile()
            self.assertEqual(self.cluster.written(), ["delete v1/Secret a/db"])
            self.reconcile()
            self.assertEqual(self.cluster.written(), ["create v1/Secret a/db"])
            self.cluster.remove(SECRET, "a", "db")

    def test_a_mirror_that_is_being_deleted_is_waited_for(self):
        self.mirrored("a")
        self.edit("a", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "data": {"password": "eA=="}})
        self.reconcile()
        self.assertEqual(self.cluster.written(), [])

    def test_a_failure_in_one_namespace_keeps_no_other_from_its_mirror(self):
        self.cluster.put(source("a, b"))
        self.cluster.fail("create", SECRET, refusal(403, "Forbidden", "no right"))
        with self.assertRaises(ApiError) as raised:
            self.reconcile()
        self.assertEqual(str(raised.exception), "can't create the mirror in a: no right (403 Forbidden)")
        self.assertIsNotNone(self.mirror("b"))

    def test_a_conflict_is_retried(self):
        self.mirrored("a")
        self.edit("vault", {"data": {"password": "eA=="}})
        self.cluster.fail("update", SECRET, refusal(409, "Conflict", "it has changed"))
        with self.assertRaises(ConflictError):
            self.reconcile()
        self.reconcile()
        self.assertEqual(self.mirror()["data"], {"password": "eA=="})

    def test_a_mirror_that_was_deleted_meanwhile_is_no_failure(self):
        self.mirrored("a")
        self.cluster.remove(SECRET, "vault", "db")
        self.cluster.fail("delete", SECRET, refusal(404, "NotFound", "it is gone"))
        self.assertIsNone(self.reconcile())

    def test_many_namespaces_are_written_in_batches(self):
        many = [f"n{number:04}" for number in range(3 * BATCH + 1)]
        for name in many:
            self.cluster.put(namespace(name))
        self.cluster.put(source(",".join(many)))
        self.reconcile()
        self.assertEqual(len(self.cluster.written()), len(many))
        self.assertTrue(self.cluster.events()[0].endswith("n0008, n0009 and 291 more"))
        self.reconcile()
        self.assertEqual(self.cluster.written(), [])

    def test_a_changed_namespace_enqueues_all_sources(self):
        self.mirrored()
        self.cluster.reconcile(SecretMirror(), SOURCES, queue=SOURCES)
        self.assertEqual([one.key for one in self.cluster.enqueued()], [KEY])

    def test_a_key_that_names_no_object_needs_nothing(self):
        for key in ("x", "a/b/c", "größe"):
            self.cluster.reconcile(SecretMirror(), key)
        self.assertEqual(self.cluster.written(), [])

    def test_data_stands_in_no_event_and_no_line_of_the_log(self):
        self.mirrored()
        self.cluster.put(source("a", data={"password": "c2VjcmV0"}))
        self.reconcile()
        told = f"{self.cluster.recorded_events()} {self.cluster.logged()}"
        self.assertIn("wrote mirrors in a", told)
        self.assertNotIn("c2VjcmV0", told)
        self.assertNotIn("password", told)


if __name__ == "__main__":
    unittest.main()

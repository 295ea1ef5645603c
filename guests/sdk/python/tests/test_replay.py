import os
import tempfile
import unittest

from flyball import Controller, RequeueAfter, RoutedKey, describe
from flyball.testing import replay, replay_fixed

#: A recording of a call that enqueues `a/y` and is called again after five seconds, and of a call of route.
RECORDING = """\
{"flyballRecording":1,"host":"0.2.0","world":"flyball:controller@0.2.0","plugin":"waker","version":"1","digest":"","builtIn":false,"withSecrets":false,"readsSecrets":false,"at":"","limits":{}}
{"call":{"reconcile":{"queue":"waker","key":"a/x","attempt":2}},"digest":"","kept":"asked","steps":[{"import":"queue.add","asked":{"queue":"","key":"a/y","delayMs":0},"answered":{"ok":null}}],"ended":{"requeueAfter":{"ms":5000}}}
{"call":{"route":{"deltas":[{"watch":"v1/ConfigMap","type":"added","new":{"metadata":{"namespace":"a","name":"x"}},"initial":true}]}},"digest":"","kept":"asked","steps":[],"ended":{"routed":{"keys":[{"queue":"","key":"a/x","delayMs":0}]}}}
"""


class Waker(Controller):
    """Enqueues another key."""

    def __init__(self, other="y"):
        self.other = other

    def describe(self):
        return describe("waker", "1")

    def reconcile(self, host, request):
        host.queue.add(f"{request.key.namespace}/{self.other}")
        return RequeueAfter(5)

    def route(self, host, deltas):
        return [RoutedKey("{namespace}/{name}".format(**one.new["metadata"])) for one in deltas]


class Replay(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = os.path.join(folder.name, "calls.fbrec")
        self.write(RECORDING)

    def write(self, recording):
        with open(self.file, "w") as file:
            file.write(recording)

    def test_a_recording_is_repeated(self):
        replay(Waker(), self.file)

    def test_a_controller_that_does_otherwise_fails(self):
        with self.assertRaisesRegex(AssertionError, 'key: "a/y" → "a/z"'):
            replay(Waker("z"), self.file)

    def test_a_recorded_failure_must_no_longer_fail(self):
        failed = RECORDING.replace('"ended":{"requeueAfter":{"ms":5000}}', '"ended":{"failed":{"message":"no"}}')
        step = '{"import":"queue.add","asked":{"queue":"","key":"a/y","delayMs":0},"answered":{"ok":null}}'
        # The second one asks more than was recorded: it is past the failure.
        for recording in (failed, failed.replace(step, "")):
            self.write(recording)
            replay_fixed(Waker(), self.file)
        self.write(failed)
        with self.assertRaisesRegex(AssertionError, 'key: "a/y" → "a/z"'):
            replay_fixed(Waker("z"), self.file)
        self.write(RECORDING)
        with self.assertRaisesRegex(ValueError, "no call that failed"):
            replay_fixed(Waker(), self.file)

    def test_another_file_is_no_recording(self):
        with self.assertRaisesRegex(ValueError, "not a recording"):
            replay(Waker(), __file__)


if __name__ == "__main__":
    unittest.main()

"""The greeter in Python with faults: see README.md in the folder above."""

from flyball import ConflictError, Failed, RequeueAfter, Terminal, export

from greeter import GREETING, Greeter

#: The number of calls of this instance that counted.
counted = 0


class Faulty(Greeter):
    def reconcile(self, host, request):
        global counted
        greeting = host.get(GREETING, *request.key)
        match greeting and greeting["spec"]["text"]:
            case "fault: raise":
                return fail(None)
            case "fault: loop":
                while True:
                    pass
            case "fault: error":
                return Failed("asked to fail")
            case "fault: terminal":
                return Terminal("no retry can help")
            case "fault: requeue":
                return RequeueAfter(0.05)
            case "fault: conflict":
                return conflict(host, greeting)
            case "fault: count":
                counted += 1
                return Terminal(f"call {counted} of this instance")
        return super().reconcile(host, request)


def fail(greeting):
    return greeting["spec"]["text"]  # the bug


def conflict(host, greeting):
    stale = {**greeting, "metadata": {**greeting["metadata"], "resourceVersion": "1"}}
    try:
        host.update(GREETING, stale, {"spec": {"text": "overwritten"}})
    except ConflictError as error:
        return Failed(f"found a conflict: {error}")
    return Failed("found no conflict")


Guest = export(Faulty())

"""The component's entry: what the host calls."""

from flyball import export

from greeter import Greeter

Guest = export(Greeter())

"""The component's entry: what the host calls."""

from flyball import export

from secret_mirror import SecretMirror

Guest = export(SecretMirror())

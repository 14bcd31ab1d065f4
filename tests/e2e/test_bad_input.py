"""The API server refuses bad input by itself: field and reason, before the operator ever sees it."""

from __future__ import annotations

import contextlib
import itertools
import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.bad_input import (
    BAD,
    BAD_EDITS,
    BAD_NAMES,
    GOOD,
    GOOD_EDITS,
    Bad,
    BadEdit,
    Changes,
    changed,
    largest,
    same_words,
)
from tests.e2e.support import Kubectl, eventually

NAMESPACE = f"e2e-bad-input-{secrets.token_hex(3)}"
CRD = Path(__file__).resolve().parents[2] / "crds/slurmclusters.yaml"
EXAMPLES = sorted((CRD.parents[1] / "examples").glob("*.yaml"))


@pytest.fixture(scope="module")
def api(kubectl: Kubectl) -> Iterator[Kubectl]:
    """A cluster with the CRD, and a namespace in which no pod can start."""
    had = not kubectl("get", "crd", "slurmclusters.slurmcluster.dev", check=False).startswith("Error")
    if not had:
        kubectl("create", "-f", str(CRD))
        kubectl("wait", "--for=condition=Established", "crd/slurmclusters.slurmcluster.dev")
    quota = {"hard": {"pods": "0", "persistentvolumeclaims": "0"}}
    kubectl.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "none", "namespace": NAMESPACE},
            "spec": quota,
        },
    )
    eventually("the CRD serves", lambda: "slc" in kubectl("api-resources"), within=30)
    yield kubectl
    kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    if not had:
        kubectl("delete", "-f", str(CRD))


def resource(spec: dict[str, Any], name: str = "bad") -> str:
    metadata = {"name": name, "namespace": NAMESPACE}
    return json.dumps(
        {"apiVersion": "slurmcluster.dev/v1alpha1", "kind": "SlurmCluster", "metadata": metadata, "spec": spec}
    )


def refusal(api: Kubectl, text: str, verb: str = "create") -> str:
    """Return what the API server answers to a resource; nothing if it takes it."""
    while True:
        said = api(verb, "--dry-run=server", "--validate=strict", "-f", "-", text=text, check=False)
        # An operator that runs may write the status in between.
        if "the object has been modified" not in said:
            return "" if "(server dry run)" in said else said


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
def test_names_the_field_and_says_what_is_wrong(api: Kubectl, bad: Bad) -> None:
    assert_said(refusal(api, resource(changed(bad.changes))), bad.path, bad.words)


@pytest.mark.parametrize("changes", GOOD.values(), ids=GOOD.keys())
def test_takes_what_is_fine(api: Kubectl, changes: Changes) -> None:
    assert not refusal(api, resource(changed(changes)))


def test_refuses_one_without_a_spec(api: Kubectl) -> None:
    without = json.loads(resource({}))
    del without["spec"]
    assert_said(refusal(api, json.dumps(without)), "spec", "Required value")


@pytest.mark.parametrize("name", BAD_NAMES)
def test_refuses_a_name_that_pods_cannot_carry(api: Kubectl, name: str) -> None:
    assert_said(refusal(api, resource(changed({}), name)), "metadata.name", "metadata.name must be 1 to 30 lower-case")


def test_takes_the_largest_spec(api: Kubectl) -> None:
    assert not refusal(api, resource(largest())), "its rules cost more than the API server's budget"


@pytest.mark.parametrize("edit", BAD_EDITS, ids=lambda edit: edit.name)
def test_refuses_an_edit(api: Kubectl, edit: BadEdit) -> None:
    with existing(api, edit.before) as name:
        assert_said(refusal(api, resource(changed(edit.after), name), "replace"), edit.path, edit.words)


@pytest.mark.parametrize(("before", "after"), [edit[1:] for edit in GOOD_EDITS], ids=[edit[0] for edit in GOOD_EDITS])
def test_takes_an_edit(api: Kubectl, before: Changes, after: Changes) -> None:
    with existing(api, before) as name:
        assert not refusal(api, resource(changed(after), name), "replace")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_takes_the_examples(api: Kubectl, example: Path) -> None:
    for document in yaml.safe_load_all(example.read_text()):
        if document["kind"] == "SlurmCluster":
            document["metadata"]["namespace"] = NAMESPACE
            assert not refusal(api, json.dumps(document))


def assert_said(said: str, path: str, words: str) -> None:
    """One complaint must be about the field and hold the words."""
    complaints = [line.removeprefix("* ") for line in said.replace(" is invalid: ", " is invalid: \n").splitlines()]
    complaints += [line for line in said.split(": ", 1)[-1].split(", ") if "unknown field" in line]
    about = [one for one in complaints if one.startswith(f"{path}: ") or f'unknown field "{path}"' in one]
    assert about, f"nothing about {path} in {said or 'silence: it was accepted'}"
    assert any(same_words(words) in same_words(one) for one in about), about


_names = (f"edit-{number}" for number in itertools.count())


@contextlib.contextmanager
def existing(api: Kubectl, changes: Changes) -> Iterator[str]:
    """Make a SlurmCluster for as long as it is needed, and say its name."""
    name = next(_names)
    api("create", "-f", "-", text=resource(changed(changes), name))
    try:
        yield name
    finally:
        api("-n", NAMESPACE, "delete", "slurmclusters.slurmcluster.dev", name, "--wait=false")

from __future__ import annotations

import pytest
from pydantic import ValidationError

from slurmcluster_operator.api.errors import problems
from slurmcluster_operator.api.spec import SlurmClusterSpec
from tests.bad_input import BAD, GOOD, Bad, Changes, changed, largest, same_words


@pytest.mark.parametrize("bad", [bad for bad in BAD if bad.models], ids=lambda bad: bad.name)
def test_names_the_field_and_says_what_is_wrong(bad: Bad) -> None:
    with pytest.raises(ValidationError) as caught:
        SlurmClusterSpec.model_validate(changed(bad.changes))

    said = problems(caught.value)
    at_the_field = [line for line in said if line.startswith(f"{bad.path}: ")]
    assert at_the_field, f"nothing about {bad.path} in {said}"
    assert any(same_words(bad.words) in same_words(line) for line in at_the_field), at_the_field


@pytest.mark.parametrize("changes", GOOD.values(), ids=GOOD.keys())
def test_takes_what_is_fine(changes: Changes) -> None:
    SlurmClusterSpec.model_validate(changed(changes))


def test_takes_the_largest_spec() -> None:
    SlurmClusterSpec.model_validate(largest())


def test_says_everything_at_once() -> None:
    with pytest.raises(ValidationError) as caught:
        SlurmClusterSpec.model_validate(changed({"pools.0.nodes.min": 17, "users.0.uid": 1, "home": {"size": "1GB"}}))

    assert [line.split(":")[0] for line in problems(caught.value)] == [
        "spec.home.size",
        "spec.users[0].uid",
        "spec.pools[0].nodes.min",
    ]

from __future__ import annotations

import pytest

from hack import generate


@pytest.mark.parametrize("name", generate.files().keys())
def test_is_what_the_models_say(name: str) -> None:
    assert (generate.ROOT / name).read_text() == generate.files()[name], "run: make generate"


def test_check_names_what_is_stale(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: object
) -> None:
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "files", lambda: {"crds/x.yaml": "a\n"})

    assert generate.main(["--check"]) == 1
    assert capsys.readouterr().out.startswith("crds/x.yaml is not what the models say")

    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0

"""The images that there are, and that their sources are in the repository."""

import pytest

from images import base
from images.build import ROOT, main
from images.cache_key import fingerprint
from images.catalog import SLURM_VERSIONS, base_reference, catalog


@pytest.mark.parametrize("version", SLURM_VERSIONS)
def test_slurm_images_carry_their_version_and_release(version: str) -> None:
    images = {image.name: image for image in catalog(version)}
    assert list(images) == ["slurm", "slurmd", "login", "mariadb", "operator"]
    for name in ("slurm", "slurmd", "login"):
        image = images[name]
        assert image.reference == f"docker.io/slurmcluster/{name}:{version}"
        assert image.target == name
        assert image.args == {"SLURM_VERSION": version, "DEBIAN_SUITE": image.suite}


@pytest.mark.parametrize("version", SLURM_VERSIONS)
def test_every_source_is_there_and_every_copied_path_is_an_input(version: str) -> None:
    for image in catalog(version):
        assert fingerprint(ROOT, (image.dockerfile, *image.inputs))
        context = ROOT / image.context
        copied = {
            word
            for line in (ROOT / image.dockerfile).read_text().splitlines()
            if line.startswith("COPY ") and "--from" not in line
            for word in line.split()[1:-1]
        }
        inputs = {ROOT / each for each in image.inputs}
        targets = {(context / each).resolve() for each in copied}
        # A Dockerfile with several targets copies for each of them.
        assert inputs <= targets, image.name
        if image.target is None:
            assert inputs == targets, image.name


def test_the_base_is_what_the_dockerfiles_start_from() -> None:
    for image in catalog("26.05"):
        lines = (ROOT / image.dockerfile).read_text().replace("${DEBIAN_SUITE}", image.suite).splitlines()
        froms = {line.split()[1] for line in lines if line.startswith("FROM docker.io/")}
        assert froms == {base_reference(image.suite)}


def test_the_base_recipe_names_no_mirror() -> None:
    assert not [argument for argument in base.recipe("trixie") if "://" in argument]


def test_an_unknown_image_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "nosuch", "--list"]) == 2
    assert "nosuch" in capsys.readouterr().err

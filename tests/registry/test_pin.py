"""`pin` against a real registry: what a tag names, moved tags, tokens, redirects, and registries that fail."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from generator.cli import main
from generator.registry import RegistryError, look_up
from generator.registry.client import ATTEMPTS, Client
from generator.registry.names import Repository
from tests.chart.registry import registry as running
from tests.cluster.checkers import require_go
from tests.project import base, make
from tests.registry.front import Front, front
from tests.registry.images import push, push_index

pytestmark = pytest.mark.go
PATH = "team/ray"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    require_go()
    with running(tmp_path_factory.mktemp("pin") / "registry") as address:
        yield address


@pytest.fixture(autouse=True)
def no_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No credentials of the person who runs the tests have a part in this; the file for a test's own."""
    folder = tmp_path / "docker"
    folder.mkdir()
    monkeypatch.setenv("DOCKER_CONFIG", str(folder))
    return folder / "config.json"


@pytest.fixture
def fronted(registry: str) -> Iterator[Front]:
    with front(registry) as state:
        yield state


def project(root: Path, repository: str, tag: str, digest: str = "") -> Path:
    text = base("version.yaml").replace("public.ecr.aws/deep-learning-containers/ray", repository)
    text = text.replace("train-ml-cuda-v1.1.0", tag).replace(f"sha256:{'0' * 64}", digest)
    return make(root, version=text)


def pinned(root: Path) -> tuple[str, bool]:
    """(image.digest, policy.requireDigest) in the files."""
    version = yaml.safe_load((root / "environments/demo/version.yaml").read_text())
    environment = yaml.safe_load((root / "environments/demo/environment.yaml").read_text())
    return version["image"]["digest"], environment["policy"]["requireDigest"]


def pin(root: Path, *args: str) -> int:
    return main(["pin", "--root", str(root), *args])


def two_platforms(registry: str, tag: str, build: str = "1") -> tuple[str, str]:
    """(digest for amd64, digest of the index)."""
    arm, amd = (push(registry, PATH, "", arch=arch, build=build) for arch in ("arm64", "amd64"))
    return amd, push_index(registry, PATH, tag, {arm: ("linux", "arm64"), amd: ("linux", "amd64")})


def test_of_an_index_the_image_for_amd64_is_pinned(
    registry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    amd, index = two_platforms(registry, "v1")
    root = project(tmp_path, f"{registry}/{PATH}", "v1")
    assert pin(root, "--dry-run") == 0
    assert pinned(root) == ("", False)
    assert pin(root) == 0
    assert pinned(root) == (amd, True)
    said = capsys.readouterr()
    assert f"{PATH}:v1 is {amd} (of the index {index})" in said.err
    assert f'+  digest: "{amd}"\n' in said.out
    assert pin(root, "--check") == 0
    assert pin(root) == 0
    assert capsys.readouterr().err.endswith("nothing to change\n")


def test_a_single_image_is_pinned_by_its_own_digest(registry: str, tmp_path: Path) -> None:
    digest = push(registry, PATH, "single")
    assert pin(project(tmp_path, f"{registry}/{PATH}", "single")) == 0
    assert pinned(tmp_path) == (digest, True)


def test_a_moved_tag_is_refused_until_it_is_wanted(
    registry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = push(registry, PATH, "moving", build="old")
    root = project(tmp_path, f"{registry}/{PATH}", "moving", old)
    new, _ = two_platforms(registry, "moving", build="new")
    for args in ((), ("--check",)):
        assert pin(root, *args) == 1
        said = capsys.readouterr()
        assert (
            "error[RTD430]: the tag moving has moved since it was pinned\n  --> environments/demo/version.yaml:4:11"
            in said.out
        )
        assert f"it names {new} now" in said.out
        assert pinned(root) == (old, False)
    assert pin(root, "--update") == 0
    assert pinned(root) == (new, True)
    assert f"it was {old}" in capsys.readouterr().err


def test_a_digest_of_the_index_counts_as_pinned(registry: str, tmp_path: Path) -> None:
    _, index = two_platforms(registry, "by-index")
    root = project(tmp_path, f"{registry}/{PATH}", "by-index", index)
    assert pin(root, "--check") == 0
    assert pin(root) == 0
    assert pinned(root) == (index, True)


def test_an_image_that_is_not_pinned_does_not_pass_the_check(registry: str, tmp_path: Path) -> None:
    push(registry, PATH, "loose")
    assert pin(project(tmp_path, f"{registry}/{PATH}", "loose"), "--check") == 1


def test_images_for_other_machines_are_refused(registry: str) -> None:
    arm = push(registry, PATH, "arm", arch="arm64")
    push_index(registry, PATH, "arms", {arm: ("linux", "arm64")})
    with pytest.raises(RegistryError, match="is for linux/arm64, but the nodes are linux/amd64"):
        look_up(f"{registry}/{PATH}", "arm")
    with pytest.raises(RegistryError, match="has no image for linux/amd64; it is for linux/arm64"):
        look_up(f"{registry}/{PATH}", "arms")


def test_a_tag_that_is_not_there(registry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = project(tmp_path, f"{registry}/{PATH}", "nowhere")
    assert pin(root) == 1
    assert f"error: {registry}/{PATH} has no image nowhere; nothing was changed\n" in capsys.readouterr().err
    assert pinned(root) == ("", False)


def test_tokens_and_redirects(registry: str, fronted: Front) -> None:
    amd, index = two_platforms(registry, "v2")
    found = look_up(f"{fronted.address}/{PATH}", "v2")
    assert (found.digest, found.index) == (amd, index)
    assert len([path for _, path, _ in fronted.seen if path.startswith("/token")]) == 1
    to_storage = [authorization for server, _, authorization in fronted.seen if server == "storage"]
    assert to_storage == [None], "the token is the registry's, not its storage's"


def test_credentials_go_to_the_token_server(registry: str, fronted: Front, no_login: Path) -> None:
    push(registry, PATH, "private")
    fronted.basic = base64.b64encode(b"me:secret").decode()
    with pytest.raises(RegistryError, match=r"refuses access to team/ray .HTTP 401.: log in with `docker login"):
        look_up(f"{fronted.address}/{PATH}", "private")
    no_login.write_text(json.dumps({"auths": {fronted.address: {"auth": fronted.basic}}}))
    assert look_up(f"{fronted.address}/{PATH}", "private").digest


def test_a_busy_registry_is_asked_again(registry: str, fronted: Front) -> None:
    push(registry, PATH, "busy")
    fronted.busy = [429, 503, 502]
    client = Client(Repository.parse(f"{fronted.address}/{PATH}"), pause=lambda seconds: None)
    assert look_up(f"{fronted.address}/{PATH}", "busy", client).digest
    fronted.busy = [503] * ATTEMPTS
    client = Client(Repository.parse(f"{fronted.address}/{PATH}"), pause=lambda seconds: None)
    with pytest.raises(RegistryError, match="answers HTTP 503") as error:
        look_up(f"{fronted.address}/{PATH}", "busy", client)
    assert error.value.unreachable


def test_content_that_is_not_what_its_digest_says(registry: str, fronted: Front) -> None:
    push(registry, PATH, "swapped")
    fronted.swapped = b'{"os": "linux", "architecture": "amd64"}'
    with pytest.raises(RegistryError, match="sent something else for sha256:"):
        look_up(f"{fronted.address}/{PATH}", "swapped")


def test_tokens_are_not_asked_for_in_the_open(registry: str, fronted: Front) -> None:
    fronted.realm = "http://tokens.example/token"
    with pytest.raises(RegistryError, match=r"http://tokens\.example/token for tokens, which is not https"):
        look_up(f"{fronted.address}/{PATH}", "v1")


def test_no_registry_there(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("generator.registry.client.time.sleep", lambda seconds: None)
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        root = project(tmp_path, f"{address}/{PATH}", "v1")
        assert pin(root) == 5
    said = capsys.readouterr().err
    assert f"error: {address} cannot be reached: " in said and "set image.digest by hand" in said
    assert pinned(root) == ("", False)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("public.ecr.aws/a/b", "https://public.ecr.aws/v2/a/b"),
        ("rayproject/ray", "https://registry-1.docker.io/v2/rayproject/ray"),
        ("ubuntu", "https://registry-1.docker.io/v2/library/ubuntu"),
        ("docker.io/a/b", "https://registry-1.docker.io/v2/a/b"),
        ("localhost/a", "http://localhost/v2/a"),
        ("localhost:5000/a", "http://localhost:5000/v2/a"),
        ("127.0.0.2:1/a", "http://127.0.0.2:1/v2/a"),
        ("10.0.0.1:5000/a", "https://10.0.0.1:5000/v2/a"),
        ("localhost.example/a", "https://localhost.example/v2/a"),
    ],
)
def test_the_registry_of_a_repository(text: str, url: str) -> None:
    assert Repository.parse(text).url == url

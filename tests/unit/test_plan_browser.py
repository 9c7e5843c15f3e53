"""The page of `plan --output html` in a real browser: nothing is loaded or reported, and no text leaves its box."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

from generator.plan.compare import comparison
from generator.plan.html import as_html
from generator.plan.plan import Plan
from generator.plan.why import why
from tests.project import base, edited
from tests.unit.test_plan import planned

BROWSER = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium: `make cluster-packages` installs it, and a font to measure with"
)

MEASURE = """<script>
const over = [...document.querySelectorAll("text[data-room]")]
  .map(e => [e.textContent, e.getComputedTextLength(), Number(e.dataset.room)])
  .filter(([, wide, room]) => wide > room + 0.5);
const outside = [...document.querySelectorAll("svg")].filter(svg => {
  const box = svg.getBBox(), view = svg.viewBox.baseVal;
  return box.x < -1 || box.y < -1 || box.x + box.width > view.width + 1 || box.y + box.height > view.height + 1;
}).length;
const page = document.documentElement;
const found = {over, outside, texts: document.querySelectorAll("text[data-room]").length,
  loaded: performance.getEntriesByType("resource").length, sideways: page.scrollWidth - page.clientWidth};
const told = document.createElement("pre");
told.id = "found";
told.textContent = JSON.stringify(found);
document.body.append(told);
</script>"""


def opened(page: Path, width: int) -> tuple[str, str]:
    """(the document when it is loaded, what the console says)."""
    assert BROWSER is not None
    process = subprocess.run(
        [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},1200",
            f"--user-data-dir={page.parent / f'profile-{page.stem}-{width}'}", "--enable-logging=stderr", "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return process.stdout, "\n".join(line for line in process.stderr.splitlines() if "CONSOLE" in line)


def plans(root: Path) -> list[Plan]:
    """The usual one, one with long names and many nodes, one without EFA, one that is not estimated."""
    large = (
        edited("environment.yaml", "g6.12xlarge", "g7e.48xlarge")
        .replace("gpusPerNode: 4", "gpusPerNode: 8")
        .replace("nodes: 2", "nodes: 100")
        .replace("sequence_length: 2048", "sequence_length: 2048, global_batch_size: 800")
    )
    return [
        planned(root / "a"),
        planned(root / "b", environment=large),
        planned(root / "c", environment=edited("environment.yaml", "efa: required", "efa: disabled")),
        planned(root / "d", environment=edited("environment.yaml", "mode: job", "mode: cluster")),
    ]


@pytest.mark.parametrize("width", [1180, 600])
def test_the_page_in_a_browser(tmp_path: Path, width: int) -> None:
    several = plans(tmp_path)
    text = as_html(several, [why(one) for one in several], comparison(several))
    page, measured = tmp_path / "page.html", tmp_path / "measured.html"
    page.write_text(text, encoding="utf-8")
    document, console = opened(page, width)
    assert console == ""
    assert "Comparison of demo, demo, demo, demo" in document

    # The page forbids scripts: the copy that measures itself does not.
    policy = re.search(r"<meta http-equiv=[^>]*>\n", text)
    assert policy is not None
    measured.write_text(text.replace(policy.group(), "").replace("</body>", MEASURE + "</body>"), encoding="utf-8")
    document, console = opened(measured, width)
    assert console == ""
    told = re.search(r'<pre id="found">(.*?)</pre>', document)
    assert told is not None
    found = json.loads(unescape(told.group(1)))
    assert found["texts"] > 100
    assert (found["over"], found["outside"], found["loaded"], found["sideways"]) == ([], 0, 0, 0)


def test_the_check_would_see_a_text_that_is_too_long(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    text = as_html([planned(tmp_path, environment=base("environment.yaml"))], [()])
    text = re.sub(r"<meta http-equiv=[^>]*>\n", "", text).replace(">head pod<", ">head pod with a name that is long<")
    page.write_text(text.replace("</body>", MEASURE + "</body>"), encoding="utf-8")
    told = re.search(r'<pre id="found">(.*?)</pre>', opened(page, 1180)[0])
    assert told is not None
    assert [what for what, _, _ in json.loads(unescape(told.group(1)))["over"]] == ["head pod with a name that is long"]

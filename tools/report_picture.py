"""Renders the report of tools/split_transformer.py in headless Chromium, into docs/_static/report.png.

    python tools/report_picture.py [--browser chromium] [--output FILE]

Needs the package with lightning, and a Chromium or Chrome that is installed. A change of the report's pages or of the cost model
calls for a new picture.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Optional

FOLDER = Path(__file__).resolve().parent
PICTURE = FOLDER.parent / "docs" / "_static" / "report.png"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTH, HEIGHT = 1228, 1552  # as far down as the pipeline
MOST_BYTES = 200_000


def main() -> int:
    parser = argparse.ArgumentParser(description="Renders the report of a split transformer.")
    parser.add_argument("--browser", help="its command; by default the first of " + ", ".join(BROWSERS))
    parser.add_argument("--output", type=Path, default=PICTURE)
    arguments = parser.parse_args()
    browser = arguments.browser or _browser()
    if browser is None:
        print(f"No browser: none of {', '.join(BROWSERS)} is on the PATH. Install Chromium, or give one with --browser.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        plan = [sys.executable, "-m", "lightning_ipu.cli", "plan", str(FOLDER / "split_transformer.py"), "--system", "bow-pod4"]
        subprocess.run([*plan, "--format", "html", "--output", str(page)], check=True)
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        _render(browser, page, arguments.output.resolve(), folder)
    size = arguments.output.stat().st_size
    print(f"{arguments.output}: {size:,} bytes")
    if size > MOST_BYTES:
        print(f"That is more than {MOST_BYTES:,} bytes. Show less of the page: lower HEIGHT.", file=sys.stderr)
        return 1
    return 0


def _browser() -> Optional[str]:
    return next((name for name in BROWSERS if shutil.which(name)), None)


def _render(browser: str, page: Path, output: Path, profile: str) -> None:
    options = [
        "--headless",
        "--disable-gpu",
        "--no-sandbox",  # so that it also runs in a container as root; it opens nothing but our own page
        "--hide-scrollbars",
        "--force-device-scale-factor=1",
        f"--user-data-dir={profile}/browser",
        f"--window-size={WIDTH},{HEIGHT}",
        f"--screenshot={output}",
    ]
    if output.exists():
        output.unlink()
    done = subprocess.run([browser, *options, page.as_uri()], capture_output=True, text=True, timeout=120)
    if not output.exists():
        raise SystemExit(f"{browser} made no picture: {done.stderr.strip()[-500:]}")


if __name__ == "__main__":
    sys.exit(main())

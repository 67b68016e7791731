"""Headless Chromium through its debugging pipe: as much as a test of one page needs, without a driver to install."""

import base64
import json
import os
import select
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
TIMEOUT_SECONDS = 60


def find() -> str | None:
    """The browser of this machine, if there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@dataclass
class Visit:
    """What happened while a page was looked at."""

    session: str
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


class Browser:
    """One browser process; close it."""

    def __init__(self, program: str, profile: Path) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        self._buffer = b""
        self._number = 0
        self._visits: dict[str, Visit] = {}
        arguments = [
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *("--no-first-run", "--disable-background-networking", "--disable-sync"),
            *("--disable-extensions", "--hide-scrollbars", "--force-color-profile=srgb"),
            *(f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"),
        ]
        # The browser reads from descriptor 3 and writes to 4.
        shell = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, program, *arguments],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(TIMEOUT_SECONDS)
        os.close(self._read)
        os.close(self._write)

    def visit(self, page: Path, width: int, height: int, scheme: str) -> Visit:
        """Open a page as a reader with this screen and this colour scheme sees it."""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        visit = self._visits[session] = Visit(session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable", session)
        self._call(
            "Emulation.setDeviceMetricsOverride",
            session,
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self._call(
            "Emulation.setEmulatedMedia",
            session,
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        self._call("Page.navigate", session, url=page.as_uri())
        here = f"location.href == {json.dumps(page.as_uri())}"
        while not self.evaluate(visit, f"document.readyState == 'complete' && {here}"):
            pass
        return visit

    def evaluate(self, visit: Visit, expression: str) -> Any:
        answer = self._call(
            "Runtime.evaluate", visit.session, expression=expression, returnByValue=True
        )
        return answer["result"].get("value")

    def screenshot(self, visit: Visit) -> bytes:
        return base64.b64decode(self._call("Page.captureScreenshot", visit.session)["data"])

    def _call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self._note(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], TIMEOUT_SECONDS)
            assert ready, "the browser does not answer"
            data = os.read(self._read, 1 << 20)
            assert data, f"the browser has ended: {self._process.poll()}"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        visit = self._visits.get(event.get("sessionId", ""))
        if visit is None:
            return
        method, about = event["method"], event["params"]
        if method == "Network.requestWillBeSent":
            visit.requests.append(about["request"]["url"])
        elif method in ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
            visit.complaints.append(json.dumps(about))

"""Headless Chromium, driven through two pipes by the DevTools protocol: what a page logs, asks for and looks like."""
import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

ANSWER_SECONDS = 300
NAMES = ("chromium", "chromium-browser", "google-chrome")


def find():
    """The program, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


def option(name):
    """The path that follows the option, taken off the command line; None without it."""
    if name not in sys.argv:
        return None
    at = sys.argv.index(name)
    path = os.path.abspath(sys.argv[at + 1])
    del sys.argv[at:at + 2]
    return path


def pictures_option():
    """The folder of --pictures, made; None without it."""
    folder = option("--pictures")
    if folder:
        os.makedirs(folder, exist_ok=True)
    return folder


class Browser:
    """with Browser() as browser: browser.open(file)"""

    def __init__(self):
        self._start()

    def _start(self):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # its processes may still write
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()

        def pipes():  # the protocol has the numbers 3 and 4
            ours = os.dup(to_browser), os.dup(from_browser)
            for place, own in zip((3, 4), ours):
                os.dup2(own, place)

        self.process = subprocess.Popen(
            [find(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=pipes)
        os.close(to_browser)
        os.close(from_browser)
        self._rest = b""
        self._count = 0
        self._session = None
        self.events = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def __enter__(self):
        return self

    def restart(self):
        """Another process, with an empty page."""
        self.process.kill()
        self.__exit__()
        self._start()

    def __exit__(self, *_):
        os.close(self._write)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self._read)
        self.profile.cleanup()

    def _message(self, seconds):
        while b"\0" not in self._rest:
            if not select.select([self._read], [], [], seconds)[0]:
                raise TimeoutError("the browser does not answer")
            got = os.read(self._read, 1 << 20)
            if not got:
                raise EOFError("the browser has ended")
            self._rest += got
        text, self._rest = self._rest.split(b"\0", 1)
        return json.loads(text)

    def ask(self, method, **parameters):
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message(ANSWER_SECONDS)  # it may have a hundredth of a processor
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def evaluate(self, script):
        """The value of an expression; promises are waited for."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description", "exception"))
        return answer["result"].get("value")

    def look(self, width, height, is_dark=False):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}])

    def open(self, path):
        """Loads the file, and waits until what is on the first screen has been drawn."""
        self.events.clear()
        self.ask("Page.navigate", url="file://" + os.path.abspath(path))
        end = time.monotonic() + ANSWER_SECONDS
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            if time.monotonic() > end:
                raise TimeoutError(f"{path} is not loaded")
            self.ask("Browser.getVersion")
        self.settle()

    def settle(self):
        """Waits for two frames; for a while only, as a busy browser may leave them out."""
        self.evaluate("new Promise(done => { requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 60))); setTimeout(done, 20000); })")

    def complaints(self):
        """Errors and warnings of the console, exceptions, and what was asked for besides the page itself."""
        found = []
        for event in self.events:
            given = event.get("params", {})
            if event.get("method") == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
                found.append(" ".join(str(value.get("value", value.get("description"))) for value in given["args"]))
            elif event.get("method") == "Runtime.exceptionThrown":
                found.append(given["exceptionDetails"].get("exception", {}).get("description", given["exceptionDetails"]["text"]))
            elif event.get("method") == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
                found.append(given["entry"]["text"])
            elif event.get("method") == "Network.requestWillBeSent" and not given["request"]["url"].startswith(("file:", "data:")):
                found.append("asks for " + given["request"]["url"])
        return found

    def barriers(self, axe):
        """What axe-core, whose axe.min.js is given, finds serious or critical, with the first element of each; nothing without it."""
        if not axe:
            return []
        with open(axe, encoding="utf-8") as file:
            self.evaluate(file.read() + ";0")
        found = self.evaluate("axe.run({resultTypes: ['violations']}).then(result => result.violations.map("
                              "found => [found.impact, found.id, found.help, found.nodes.length, found.nodes[0].html.slice(0, 200)]))")
        return [barrier for barrier in found if barrier[0] in ("serious", "critical")]

    def picture(self, path, is_whole=False):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.ask("Page.captureScreenshot", captureBeyondViewport=is_whole)["data"]))

    def print(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.ask("Page.printToPDF", printBackground=True)["data"]))

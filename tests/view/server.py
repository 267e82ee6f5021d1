"""rehearse view as a process, and requests to it."""
import http.client
import json
import re
import signal
import subprocess


class Server:
    """with Server(program, folder) as server: server.get("/")"""

    def __init__(self, program, folder, *options):
        self.process = subprocess.Popen([program, "view", folder, "--port", "0", "--quiet", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)", self.address)
        if not found:
            raise RuntimeError(f"no address: {self.address} {self.process.stderr.read()}")
        self.port = int(found[1])
        self.token = re.search('name="token" content="([0-9a-f]+)"', self.get("/")[2])[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self, number=signal.SIGTERM, seconds=10):
        """The exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self.said = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    def request(self, method, target, body=None, headers=None, host=None):
        """Status, headers and text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            connection.putheader("Host", host or f"127.0.0.1:{self.port}")
            for name, value in (headers or {}).items():
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders()
            if body is not None:
                connection.send(body)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode("utf-8", "replace")
        finally:
            connection.close()

    def get(self, target, **more):
        return self.request("GET", target, **more)

    def json(self, target):
        return json.loads(self.get(target)[2])

    def post(self, target, value, raw=None, **changed):
        """A request as the page makes it, with `changed` headers; None leaves one out."""
        headers = {"Content-Type": "application/json", "X-Rehearse-Token": self.token, "Origin": self.address, "Sec-Fetch-Site": "same-origin"}
        for name, value_of in changed.items():
            headers[name.replace("_", "-")] = value_of
        headers = {name: text for name, text in headers.items() if text is not None}
        return self.request("POST", target, body=json.dumps(value).encode() if raw is None else raw, headers=headers)

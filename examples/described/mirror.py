#!/usr/bin/env python3
"""Keeps a copy of a site that runs Parley, in one SQLite file.

    mirror.py follow https://www.example.org/ copy.db    until it is stopped
    mirror.py write copy.db DIR                          writes the pages as files

Written only from the site's own descriptions: .well-known/parley, and the
documents that it names, openapi.json and asyncapi.json. It needs Python 3.9
and one package, websockets 10 or later.
"""
import asyncio, base64, hashlib, http.client, io, json, logging, os, random, signal, sqlite3, sys, time
import urllib.error, urllib.parse, urllib.request, urllib.robotparser
import xml.etree.ElementTree as ElementTree

import websockets

AGENT = "mirror/1.0 (+https://example.net/bot)"
RSS, RDF, PARLEY = "{http://purl.org/rss/1.0/}", "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}", "{urn:parley:1#}"
MOST = 100 << 20  # maximum length of a page or a manifest, in bytes
PAUSE = 0.05  # seconds between two page requests; a site that knows its clients may allow a higher rate
TROUBLE = (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, asyncio.TimeoutError, ElementTree.ParseError, websockets.WebSocketException)


def digest(body):
    return "sha-256=:" + base64.b64encode(hashlib.sha256(body).digest()).decode() + ":"


def get(url):
    request = urllib.request.Request(url, headers={"User-Agent": AGENT})
    with urllib.request.urlopen(request, timeout=60) as answer:
        body = answer.read(MOST + 1)
    if len(body) > MOST:
        raise ValueError(f"{url} has more than {MOST} bytes")
    return body


class Copy:
    """The stored pages of the site, and the cursor of the last message applied to them, in one file: one transaction covers both.

    A page with a known digest whose content has not been fetched is a pending
    fetch: wanted is the digest that the content must have, and due the time of
    the next attempt.
    """

    def __init__(self, path):
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.executescript(
            """CREATE TABLE IF NOT EXISTS pages(url TEXT PRIMARY KEY, wanted TEXT, body BLOB, due REAL, tries INT DEFAULT 0);
            CREATE INDEX IF NOT EXISTS owed ON pages(due) WHERE due IS NOT NULL;
            CREATE TABLE IF NOT EXISTS stands(one INT PRIMARY KEY CHECK(one = 1), cursor TEXT);"""
        )

    def __enter__(self):
        self.db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind, *_):
        self.db.execute("ROLLBACK" if kind else "COMMIT")

    def cursor(self):
        row = self.db.execute("SELECT cursor FROM stands").fetchone()
        return row and row[0]

    def stand(self, cursor):
        self.db.execute("INSERT OR REPLACE INTO stands VALUES(1, ?)", (cursor,))

    def want(self, url, wanted, body=None):
        """Records the digest that a page must have, or None if it is unknown.

        Stores body if it has that digest, or if the digest is unknown. Without
        such a body the page becomes a pending fetch, due at once, unless the
        content with that digest is already stored.
        """
        if body is not None and (wanted is None or digest(body) == wanted):
            self.db.execute("INSERT OR REPLACE INTO pages(url, wanted, body) VALUES(?, ?, ?)", (url, wanted, body))
            return
        held = self.db.execute("SELECT wanted, body IS NOT NULL FROM pages WHERE url = ? AND due IS NULL", (url,)).fetchone()
        if wanted is None or held != (wanted, 1):
            self.db.execute("INSERT INTO pages(url, wanted, due) VALUES(?1, ?2, 0) ON CONFLICT DO UPDATE SET wanted = ?2, due = 0, tries = 0", (url, wanted))

    def drop(self, url):
        self.db.execute("DELETE FROM pages WHERE url = ?", (url,))

    def move(self, old, new, wanted):
        """Moves a page from the URL old to new. Its stored content is kept if it has the digest wanted."""
        row = self.db.execute("SELECT body FROM pages WHERE url = ?", (old,)).fetchone()
        self.drop(old)
        self.want(new, wanted, row and row[0])

    def owed(self):
        """Returns the pending fetch that is due first, or None: URL, digest of the content, due time, failed attempts."""
        return self.db.execute("SELECT url, wanted, due, tries FROM pages WHERE due IS NOT NULL ORDER BY due LIMIT 1").fetchone()

    def paid(self, url, wanted, body):
        """Stores the content of a fetched page, unless another digest has been announced meanwhile."""
        self.db.execute("UPDATE pages SET body = ?, due = NULL, tries = 0 WHERE url = ? AND wanted IS ?", (body, url, wanted))

    def urls(self):
        return [url for (url,) in self.db.execute("SELECT url FROM pages").fetchall()]

    def later(self, url, wanted, tries):
        """Schedules the next attempt after a failed fetch, at growing intervals, unless the announced digest is another by now."""
        due = time.time() + min(3600, 2**tries) * random.uniform(0.5, 1)
        self.db.execute("UPDATE pages SET due = ?, tries = tries + 1 WHERE url = ? AND wanted IS ? AND due IS NOT NULL", (due, url, wanted))


class Mirror:
    def __init__(self, base, path):
        self.base, self.copy = base, Copy(path)
        self.origin = urllib.parse.urlsplit(base)[:2]
        self.rules = urllib.robotparser.RobotFileParser()
        self.owing = asyncio.Event()
        self.failed = 0  # connections that ended since the last message hello

    def url(self, text):
        """Returns the absolute URL, or None if it is on another site: a site publishes only its own pages."""
        url = urllib.parse.urljoin(self.base, text)
        return url if urllib.parse.urlsplit(url)[:2] == self.origin else None

    async def read_manifest(self, url):
        """Records all pages that the manifest lists, and its cursor. Drops all other pages if the manifest is complete."""
        body = await asyncio.to_thread(get, url)
        names, items, cursor = set(), None, None
        with self.copy:
            for _, node in ElementTree.iterparse(io.BytesIO(body)):
                if node.tag == RSS + "channel":
                    cursor = node.findtext(PARLEY + "epoch") + ":" + node.findtext(PARLEY + "seq")
                    if node.findtext(PARLEY + "complete") == "true":
                        items = int(node.findtext(PARLEY + "items"))
                elif node.tag == RSS + "item":
                    page = self.url(node.get(RDF + "about"))
                    if page:
                        names.add(page)
                        self.copy.want(page, node.findtext(PARLEY + "digest"))
                    node.clear()
            if cursor is None or items is not None and len(names) != items:
                raise ValueError(f"{url} is not whole")
            for page in self.copy.urls() if items is not None else []:
                if page not in names:
                    self.copy.drop(page)
            self.copy.stand(cursor)
        self.owing.set()
        logging.info("the manifest names %d pages, at %s", len(names), cursor)

    def take(self, message):
        """Applies the changes in a message, and stores the cursor after it, in one transaction."""
        begins = message.get("after", message.get("from")) if message["t"] in ("ev", "batch", "mark") else None
        if begins not in (None, self.copy.cursor()):
            raise ValueError(f"a message is missing after {self.copy.cursor()}")
        with self.copy:
            for change in [message] if message["t"] == "ev" else message.get("ev", []):
                self.take_change(change)
            if message["t"] in ("ev", "batch", "mark"):  # messages of all other types are ignored
                self.copy.stand(message["to"])
        self.owing.set()

    def take_change(self, change):
        url, wanted, body = self.url(change["url"]), change.get("hash"), None
        if url is None:
            return
        if change["op"] == "delete":
            self.copy.drop(url)
            return
        given = change.get("body", {})
        if "text" in given and "enc" not in given:
            body = given["text"].encode()
        elif "b64" in given and "enc" not in given:
            body = base64.b64decode(given["b64"])
        if change["op"] == "move":
            self.copy.move(self.url(change["from"]), url, wanted)
        self.copy.want(url, wanted, body)

    async def listen(self):
        """Handles one connection, from hello to bye. Returns the seconds to wait before reconnecting, or None: do not reconnect."""
        found = json.loads(await asyncio.to_thread(get, urllib.parse.urljoin(self.base, ".well-known/parley")))
        if self.copy.cursor() is None:
            await self.read_manifest(found["manifest"])
        form = "page" if "page" in found.get("forms", []) else "meta"
        door = found["stream"] + "?" + urllib.parse.urlencode({"after": self.copy.cursor(), "as": form})
        try:
            stream = await websockets.connect(door, subprotocols=["parley.v1.json"], max_size=4 << 20, ping_interval=None, user_agent_header=AGENT)
        except websockets.InvalidHandshake as refusal:
            status = getattr(refusal, "status_code", None) or getattr(getattr(refusal, "response", None), "status_code", 0)
            if status not in (409, 410):
                raise
            await self.read_manifest(found["manifest"])  # the site cannot continue from our cursor
            return 0
        silence, again = 60, 1
        try:
            while True:
                message = json.loads(await asyncio.wait_for(stream.recv(), silence))
                if message["t"] == "hello":
                    self.failed = 0
                    silence = message.get("hb", 50) + 10
                    logging.info("listening after %s", message["from"])
                elif message["t"] == "gap":
                    await self.read_manifest(message["manifest"])
                    return 0  # reconnect: this stream goes on after the gap, but we continue from the manifest's cursor
                elif message["t"] == "bye":
                    again = message.get("retry_ms", 1000) / 1000
                else:
                    self.take(message)
        except websockets.ConnectionClosed:
            return None if 4500 <= (stream.close_code or 0) <= 4999 else again
        finally:
            await stream.close()

    async def listen_for_ever(self):
        while True:
            try:
                again = await self.listen()
            except TROUBLE as error:
                again = 0
                logging.warning("%s", error or type(error).__name__)
            if again is None:
                return
            self.failed += 1
            await asyncio.sleep(max(again, min(60, 0.5 * 2**self.failed) * random.uniform(0.5, 1)))

    async def pay(self):
        """Fetches pending pages, one at a time, as far as robots.txt allows."""
        while True:
            try:
                self.rules.parse((await asyncio.to_thread(get, urllib.parse.urljoin(self.base, "/robots.txt"))).decode("utf-8", "replace").splitlines())
                break
            except urllib.error.HTTPError as error:
                if 400 <= error.code < 500:  # without a robots.txt there are no rules
                    self.rules.parse([])
                    break
            except TROUBLE:
                pass
            await asyncio.sleep(5)
        while True:
            self.owing.clear()
            owed = self.copy.owed()
            wait = owed[2] - time.time() if owed else 3600
            if wait > 0:
                try:
                    await asyncio.wait_for(self.owing.wait(), wait)
                except asyncio.TimeoutError:
                    pass
                continue
            url, wanted, _, tries = owed
            body = None
            try:
                if self.rules.can_fetch(AGENT, url):
                    body = await asyncio.to_thread(get, url)
            except TROUBLE as error:
                logging.info("%s: %s", url, error)
            with self.copy:
                if body is not None and (wanted is None or digest(body) == wanted):
                    self.copy.paid(url, wanted, body)
                else:  # the page may be deleted, or newer than this digest: then the site will announce that
                    self.copy.later(url, wanted, tries)
            await asyncio.sleep(PAUSE)


async def follow(base, path):
    mirror = Mirror(base if base.endswith("/") else base + "/", path)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asyncio.current_task().cancel)
    paying = asyncio.create_task(mirror.pay())
    try:
        listening = asyncio.create_task(mirror.listen_for_ever())
        await asyncio.wait([paying, listening], return_when=asyncio.FIRST_COMPLETED)
        (listening if listening.done() else paying).result()
    finally:
        for task in (paying, listening):
            task.cancel()


def write(path, into):
    """Writes the stored pages as files. Prints the cursor of the copy and the number of pending fetches."""
    copy = Copy(path)
    with copy:  # one transaction, so that the pages and the cursor belong together
        for url, body in copy.db.execute("SELECT url, body FROM pages WHERE body IS NOT NULL"):
            name = urllib.parse.unquote(urllib.parse.urlsplit(url).path).lstrip("/")
            name = os.path.normpath(os.path.join(into, name + "index.html" if name.endswith("/") or not name else name))
            if os.path.commonpath([os.path.abspath(name), os.path.abspath(into)]) != os.path.abspath(into):
                continue
            os.makedirs(os.path.dirname(name), exist_ok=True)
            with open(name, "wb") as file:
                file.write(body)
        owed = copy.db.execute("SELECT count(*) FROM pages WHERE due IS NOT NULL").fetchone()[0]
        print(copy.cursor(), owed)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if len(sys.argv) == 4 and sys.argv[1] == "follow":
        try:
            asyncio.run(follow(sys.argv[2], sys.argv[3]))
        except (KeyboardInterrupt, asyncio.CancelledError):
            pass
    elif len(sys.argv) == 4 and sys.argv[1] == "write":
        write(sys.argv[2], sys.argv[3])
    else:
        sys.exit(__doc__)

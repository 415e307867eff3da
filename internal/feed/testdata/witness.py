"""Reads a feed with the readers of Python's standard library, and prints of
each entry its id, its link, its title and its date, a tab between them; of a
deletion "deleted" and its id."""
import json
import sys
import xml.etree.ElementTree as ET
from datetime import timezone
from email.utils import parsedate_to_datetime

ATOM = "{http://www.w3.org/2005/Atom}"
GONE = "{http://purl.org/atompub/tombstones/1.0}deleted-entry"


def show(*words):
    print(*words, sep="\t")


sys.stdout.reconfigure(encoding="utf-8")
text = open(sys.argv[1], "rb").read()
if text.startswith(b"{"):
    feed = json.loads(text)
    assert feed["version"] == "https://jsonfeed.org/version/1.1", feed["version"]
    for e in feed["items"]:
        assert e["content_text"] or e["content_html"]
        show(e["id"], e["url"], e["title"], e.get("date_modified", ""))
else:
    root = ET.fromstring(text)
    if root.tag == "rss":
        assert root.get("version") == "2.0"
        for e in root.iter("item"):
            date = e.findtext("pubDate")
            if date:
                date = parsedate_to_datetime(date).astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            show(e.findtext("guid"), e.findtext("link"), e.findtext("title"), date or "")
    else:
        assert root.tag == ATOM + "feed", root.tag
        for e in root:
            if e.tag == GONE:
                show("deleted", e.get("ref"))
            elif e.tag == ATOM + "entry":
                show(e.findtext(ATOM + "id"), e.find(ATOM + "link").get("href"), e.findtext(ATOM + "title"),
                     e.findtext(ATOM + "updated"))

#!/usr/bin/env python3
"""Prints the pages of a site that runs Parley, and then every change: poller.py https://www.example.org/"""
import http.client, json, sys, time, urllib.parse, urllib.request
import xml.etree.ElementTree as ElementTree

RSS, RDF, PARLEY = "{http://purl.org/rss/1.0/}", "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}", "{urn:parley:1#}"


def get(url):
    request = urllib.request.Request(url, headers={"User-Agent": "poller/1.0 (+https://example.net/bot)"})
    return urllib.request.urlopen(request, timeout=90)


def manifest(base):
    """Prints the pages in the manifest; returns its cursor, and the URL of the change list."""
    with get(urllib.parse.urljoin(base, "robots.rdf")) as answer:
        for _, node in ElementTree.iterparse(answer):
            if node.tag == RSS + "channel":
                cursor = node.findtext(PARLEY + "epoch") + ":" + node.findtext(PARLEY + "seq")
                door = node.find(PARLEY + "changes").get(RDF + "resource")
            elif node.tag == RSS + "item":
                print("create", node.get(RDF + "about"), flush=True)
                node.clear()
    return cursor, urllib.parse.urljoin(base, door)


cursor = None  # a real crawler stores it in the same database as its pages
while True:
    try:
        if cursor is None:
            cursor, door = manifest(sys.argv[1])
        with get(f"{door}?after={cursor}&wait=30") as answer:
            batch = json.load(answer)
        for change in batch.get("ev", []):
            print(change["op"], change["url"], change.get("from", ""), flush=True)
        cursor = batch["to"]
    except (OSError, http.client.HTTPException, ValueError, ElementTree.ParseError) as error:
        if getattr(error, "code", 0) in (409, 410):  # the cursor is no longer valid: read the manifest again
            cursor = None
        time.sleep(5)

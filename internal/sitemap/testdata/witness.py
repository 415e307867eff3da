"""Reads a sitemap with the XML reader of Python's standard library, and prints
of each entry its loc and its lastmod, a tab between them."""
import sys
import xml.etree.ElementTree as ET

NS = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
for _, e in ET.iterparse(sys.argv[1]):
    if e.tag in (NS + "url", NS + "sitemap"):
        print(e.findtext(NS + "loc", ""), e.findtext(NS + "lastmod", ""), sep="\t")
        e.clear()

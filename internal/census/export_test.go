package census

// Of Castillo's tables, from his totals.

func Averages(static, dynamic, unique, duplicates, sites int64) Table {
	t := table("summary", "R01", 1, "figure", "value")
	averages(&t, static, dynamic, unique, duplicates, sites)
	return t
}

func SiteFigures(sites, linkedTo, linking, either int64) Table {
	t := table("site_graph", "R20", 1, "figure", "number", "share")
	siteFigures(&t, sites, linkedTo, linking, either)
	return t
}

func Components(sizes []uint32, alone int64) Table { return components(sizes, alone) }

func LanguageOf(text string) string { return languageOf([]byte(text)) }

func ExtensionOf(url string) string { return extensionOf(url) }

func ClassOf(n int64) (from, to int64) {
	var t Table
	h := histogram{}
	h.add(n)
	t.classes(h)
	return t.Rows[0][0].(int64), t.Rows[0][1].(int64)
}

func Exponential(values map[int]int64) (rate float64, n int64, distance float64) {
	return exponential(values)
}

func TopShare(list []int64) float64 { return topShare(list) }

package gather

// maxPairs bounds the pairs of a page.
const maxPairs = 600

// appendPairs appends hashes of half of the word pairs of a page's content, in which references are enclosed in bytes of 1.
func appendPairs(list []uint32, content []byte) []uint32 {
	const offset, prime = 2166136261, 16777619 // FNV-1a
	var lower [256]byte                        // of word bytes; 0 for separators
	for c := range lower {
		switch {
		case 'A' <= c && c <= 'Z':
			lower[c] = byte(c) + 'a' - 'A'
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c >= 0x80:
			lower[c] = byte(c)
		}
	}
	before := uint32(0)
	for i := 0; i < len(content); i++ {
		if lower[content[i]] == 0 {
			if content[i] == 1 {
				for i++; i < len(content) && content[i] != 1; i++ {
				}
				before = 0
			}
			continue
		}
		word := uint32(offset)
		for ; i < len(content) && lower[content[i]] != 0; i++ {
			word = (word ^ uint32(lower[content[i]])) * prime
		}
		i-- // the byte after the word may begin a reference
		pair := before*0x9e3779b1 ^ word
		pair ^= pair >> 15
		if pair *= 0x85ebca6b; pair&(1<<20) == 0 && before != 0 {
			if list = append(list, pair); len(list) == maxPairs {
				return list
			}
		}
		before = word
	}
	return list
}

package gather

// maxPairs is how many pairs of a page are of interest.
const maxPairs = 1000

// appendPairs appends half of the pairs of words of a page's content, in which references stand between bytes of 1.
func appendPairs(list []uint32, content []byte) []uint32 {
	const offset, prime = 2166136261, 16777619 // FNV-1a
	before, word := uint32(0), uint32(offset)
	for i := 0; i <= len(content); i++ {
		c := byte(' ')
		if i < len(content) {
			c = content[i]
		}
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
			fallthrough
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c >= 0x80:
			word = (word ^ uint32(c)) * prime
			continue
		}
		if word != offset {
			pair := before*0x9e3779b1 ^ word
			pair ^= pair >> 15
			if pair *= 0x85ebca6b; pair&(1<<20) == 0 && before != 0 {
				if list = append(list, pair); len(list) == maxPairs {
					return list
				}
			}
			before, word = word, offset
		}
		if c == 1 {
			for i++; i < len(content) && content[i] != 1; i++ {
			}
			before = 0
		}
	}
	return list
}

package collection

// signals in the order of their codes, lowest first. The order is part of the format.
var signals = [...]Signal{"", ByLink, byAge, BySitemap, ByFeed, ByManifest, ByChanges, ByStream, ByIndexNow, ByPerson}

// code returns a signal's index in signals. An unknown signal counts as a link.
func (s Signal) code() byte {
	for i, t := range signals {
		if s == t {
			return byte(i)
		}
	}
	return 1
}

func signalOf(code byte) Signal { return signals[min(int(code), len(signals)-1)] }

// never is the At of a page that is not in the queue, in milliseconds.
const never = 1<<62 - 1

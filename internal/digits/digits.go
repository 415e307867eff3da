// Package digits writes whole numbers for people.
package digits

// Group separates the thousands of a whole number in decimal: with a comma, -1234567 becomes -1,234,567.
func Group(number, separator string) string {
	for i := len(number) - 3; i > 0 && number[i-1] != '-'; i -= 3 {
		number = number[:i] + separator + number[i:]
	}
	return number
}

package csirpc

import "iter"

// Page is the part of a list that a caller wants.
type Page struct {
	// Start is the key of the first entry; empty for the beginning.
	Start string
	// Limit is the most entries; 0 does not limit them.
	Limit int
}

// ReadPage reads which part is wanted.
func ReadPage(maxEntries int32, token string) (Page, error) {
	if maxEntries < 0 {
		return Page{}, Invalid("max_entries is %d", maxEntries)
	}
	return Page{Start: token, Limit: int(maxEntries)}, nil
}

// Cut takes the entries of a page from a sequence that begins at the page's start. The token is the key of the entry behind the last
// one, and empty when there is none. It stops at the first error.
func Cut[T any](p Page, entries iter.Seq2[T, error], key func(T) string) (page []T, token string, err error) {
	for e, err := range entries {
		if err != nil {
			return nil, "", err
		}
		if p.Limit > 0 && len(page) == p.Limit {
			return page, key(e), nil
		}
		page = append(page, e)
	}
	return page, "", nil
}

package table

import "strings"

// mark begins a section of the page.
const mark = "\n## "

// sections are the parts of a page by their titles, in the form that they are written in: the head, and what begins with a title of the second level.
func sections(page string) map[string]string {
	out := map[string]string{}
	for page != "" {
		text, rest := page, ""
		if at := strings.Index(page[1:], mark); at >= 0 {
			// The line break before the mark is the last one of this section.
			text, rest = page[:at+2], page[at+2:]
		}
		out[title(text)] = text
		page = rest
	}
	return out
}

// title is the first line of a section.
func title(section string) string {
	first, _, _ := strings.Cut(section, "\n")
	return first
}

package recorded

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"
)

// comparison remembers what stands for what: which ID of ours for which recorded one, and which process.
type comparison struct {
	ours   map[string]string
	theirs map[string]string
	// seen has the last pair of a number that the server makes up, by what it is of.
	seen map[string][2]string
}

func newComparison() *comparison {
	return &comparison{ours: map[string]string{}, theirs: map[string]string{}, seen: map[string][2]string{}}
}

var uuidPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// translate puts our IDs into a text with recorded ones.
func (c *comparison) translate(text string) string {
	return uuidPattern.ReplaceAllStringFunc(text, func(id string) string {
		if our, ok := c.ours[id]; ok {
			return our
		}
		return id
	})
}

// same reports whether an ID of ours stands for a recorded one. At the first sight of both it does from then on.
func (c *comparison) same(theirs, ours string) bool {
	a, bound := c.ours[theirs]
	b, taken := c.theirs[ours]
	if !bound && !taken {
		c.ours[theirs], c.theirs[ours] = ours, theirs
		return true
	}
	return a == ours && b == theirs
}

// text compares texts but for IDs.
func (c *comparison) text(theirs, ours string) bool {
	a, b := uuidPattern.FindAllString(theirs, -1), uuidPattern.FindAllString(ours, -1)
	if len(a) != len(b) || uuidPattern.ReplaceAllString(theirs, "#") != uuidPattern.ReplaceAllString(ours, "#") {
		return false
	}
	for i := range a {
		if !c.same(a[i], b[i]) {
			return false
		}
	}
	return true
}

// made compares a number that the server makes up: it changes if and only if the recorded one does.
func (c *comparison) made(of, theirs, ours string) bool {
	if (theirs == "0") != (ours == "0") {
		return false
	}
	last, ok := c.seen[of]
	c.seen[of] = [2]string{theirs, ours}
	return !ok || theirs == "0" || last[0] == "0" || (last[0] == theirs) == (last[1] == ours)
}

func parse(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

// value compares values, and returns where they differ first.
func (c *comparison) value(at string, theirs, ours any) error {
	switch t := theirs.(type) {
	case map[string]any:
		o, ok := ours.(map[string]any)
		if !ok {
			break
		}
		return c.object(at, t, o)
	case []any:
		o, ok := ours.([]any)
		if !ok || len(o) != len(t) {
			return fmt.Errorf("%s: a list of %d, recorded %d", at, len(o), len(t))
		}
		c.order(t)
		c.order(o)
		for i := range t {
			if err := c.value(fmt.Sprintf("%s[%d]", at, i), t[i], o[i]); err != nil {
				return err
			}
		}
		return nil
	case string:
		if o, ok := ours.(string); ok && c.text(t, o) {
			return nil
		}
	default:
		if theirs == ours {
			return nil
		}
	}
	return fmt.Errorf("%s: %v, recorded %v", at, ours, theirs)
}

func (c *comparison) object(at string, theirs, ours map[string]any) error {
	if a, b := slices.Sorted(maps.Keys(theirs)), slices.Sorted(maps.Keys(ours)); !slices.Equal(a, b) {
		return fmt.Errorf("%s: fields %v, recorded %v", at, b, a)
	}
	for _, k := range slices.Sorted(maps.Keys(theirs)) {
		known, ok := c.measured(k, theirs, ours)
		if known && ok {
			continue
		}
		if known {
			return fmt.Errorf("%s.%s: %v, recorded %v: not what is measured or made up", at, k, ours[k], theirs[k])
		}
		if err := c.value(at+"."+k, theirs[k], ours[k]); err != nil {
			return err
		}
	}
	return nil
}

var loop = regexp.MustCompile(`^/dev/loop[0-9]+$`)

// measured compares what the machine measured or the server made up: numbers of processes and ports, used space, loop devices, times.
func (c *comparison) measured(k string, theirs, ours map[string]any) (known, ok bool) {
	switch k {
	case "pid", "port":
		of := fmt.Sprint(theirs["id"], k)
		if info, is := theirs["info"].(map[string]any); is {
			of = fmt.Sprint(info["id"], k)
		}
		return true, c.made(of, fmt.Sprint(theirs[k]), fmt.Sprint(ours[k]))
	case "used", "free":
		if _, is := theirs["capacity"]; !is {
			return false, false
		}
		return true, sum(theirs) && sum(ours)
	case "device":
		info, is := theirs["info"].(map[string]any)
		if !is || !strings.HasPrefix(fmt.Sprint(info["path"]), "/run/") {
			return false, false
		}
		return true, loop.MatchString(fmt.Sprint(theirs[k])) == loop.MatchString(fmt.Sprint(ours[k]))
	case "timestamp":
		_, err1 := time.Parse(time.RFC3339Nano, fmt.Sprint(theirs[k]))
		_, err2 := time.Parse(time.RFC3339Nano, fmt.Sprint(ours[k]))
		return true, err1 == nil && err2 == nil
	}
	return false, false
}

// sum reports whether used and free space are the capacity.
func sum(size map[string]any) bool {
	var n [3]uint64
	for i, k := range []string{"capacity", "used", "free"} {
		if _, err := fmt.Sscan(fmt.Sprint(size[k]), &n[i]); err != nil {
			return false
		}
	}
	return n[0] == n[1]+n[2] && (n[0] == 0) == (n[1] == 0)
}

// order sorts lists whose order is that of a Go map, or of whichever peer was first.
func (c *comparison) order(list []any) {
	sort.SliceStable(list, func(i, j int) bool { return orderKey(list[i]) < orderKey(list[j]) })
}

func orderKey(v any) string {
	m, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	if info, ok := m["info"].(map[string]any); ok {
		return fmt.Sprint(info["host"], info["path"])
	}
	if f, ok := m["fields"].(map[string]any); ok {
		return fmt.Sprint(f["peer-id"])
	}
	for _, k := range []string{"key", "Filename", "default-value", "onvalue"} {
		if _, ok := m[k]; ok {
			return fmt.Sprint(m["name"], m[k], m["value"], m["option-level"])
		}
	}
	if _, ok := m["options"].([]any); ok {
		return fmt.Sprint(m["name"])
	}
	return ""
}

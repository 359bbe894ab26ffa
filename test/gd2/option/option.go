// Package option knows the options of volumes and of the cluster: names, defaults and what glusterd2 lets pass. The tables are those of the server
// that was recorded.
package option

import (
	"embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

//go:embed volume.json group.json
var tables embed.FS

// Option is an option of volumes.
type Option struct {
	// Name is category/xlator.option.
	Name    string `json:"name"`
	Default string `json:"default"`
	Level   string `json:"level"`
}

// Group is a set of options under one name.
type Group struct {
	Name        string   `json:"name"`
	Options     []Member `json:"options"`
	Description string   `json:"description"`
}

// Member is an option of a Group.
type Member struct {
	Name     string `json:"name"`
	OnValue  string `json:"onvalue"`
	OffValue string `json:"offvalue,omitempty"`
}

var (
	all    = load[Option]("volume.json")
	groups = load[Group]("group.json")
	byName = index()
)

func load[T any](name string) []T {
	text, err := tables.ReadFile(name)
	if err != nil {
		panic(err)
	}
	var out []T
	if err := json.Unmarshal(text, &out); err != nil {
		panic(err)
	}
	return out
}

// index has every option under its long name and without the category. An option that is called as its xlator goes by the xlator's name, too.
func index() map[string]Option {
	out := map[string]Option{}
	for _, o := range all {
		_, short, _ := strings.Cut(o.Name, "/")
		xlator, key, _ := strings.Cut(short, ".")
		out[o.Name], out[short] = o, o
		if xlator == key {
			out[strings.TrimSuffix(o.Name, "."+key)] = o
		}
	}
	return out
}

// All returns the options of volumes.
func All() []Option { return all }

// Groups returns the groups of options.
func Groups() []Group { return groups }

// Defaults returns the options that a new volume gets whose first subvolume is of a type.
func Defaults(subvol string) []Member {
	for _, g := range groups {
		if g.Name == "profile.default."+subvol {
			return g.Options
		}
	}
	return nil
}

// Find returns the option with a name, in any of its spellings.
func Find(name string) (Option, error) {
	if o, ok := byName[name]; ok {
		return o, nil
	}
	return Option{}, fmt.Errorf("option not found: %s", name)
}

// Flags are which levels may be set.
type Flags struct {
	Advanced     bool
	Experimental bool
	Deprecated   bool
}

var size = regexp.MustCompile(`^[0-9]+ ?[KMGT]B$`)

// Check says why an option cannot be set, and nil if it can. It checks sizes alone among the values.
func Check(name, value string, f Flags) error {
	o, err := Find(name)
	if err != nil {
		return err
	}
	switch {
	case o.Level == "Advanced" && !f.Advanced:
		return fmt.Errorf("option %s is an advanced option. To set it pass the advanced flag", name)
	case o.Level == "Experimental" && !f.Experimental:
		return fmt.Errorf("option %s is an experimental option. To set it pass the experimental flag", name)
	}
	if size.MatchString(o.Default) {
		if _, err := strconv.ParseFloat(strings.TrimRight(value, "KMGTB "), 64); err != nil {
			// The server has value and key the wrong way round.
			return fmt.Errorf("failed to validate value(%s) for key(%s): %w", name, value, err)
		}
	}
	return nil
}

// Normal returns the long name of an option.
func Normal(name string) string {
	if o, err := Find(name); err == nil {
		return o.Name
	}
	return name
}

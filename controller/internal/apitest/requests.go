package apitest

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// counting is the variable that, if set, makes Main tell what the tests asked the API server for: "get secrets" 12 times, and so on.
const counting = "QUARRY_TEST_REQUESTS"

// requests are counted by verb and resource.
var requests struct {
	sync.Mutex
	of map[string]int
}

// count lets the requests of a client be counted, if somebody wants to know.
func count(c *rest.Config) *rest.Config {
	if os.Getenv(counting) != "" {
		c.Wrap(func(next http.RoundTripper) http.RoundTripper { return counter{next} })
	}
	return c
}

type counter struct{ next http.RoundTripper }

// RoundTrip counts a request and passes it on.
func (c counter) RoundTrip(r *http.Request) (*http.Response, error) {
	requests.Lock()
	if requests.of == nil {
		requests.of = map[string]int{}
	}
	requests.of[verb(r)+" "+resource(r.URL.Path)]++
	requests.Unlock()
	return c.next.RoundTrip(r)
}

func verb(r *http.Request) string {
	query := r.URL.Query()
	switch {
	case query.Get("watch") != "":
		return "watch"
	case query.Get("dryRun") != "":
		return "rehearse"
	case r.Method == http.MethodPatch && strings.Contains(r.Header.Get("Content-Type"), "apply"):
		return "apply"
	}
	return strings.ToLower(r.Method)
}

// resource is the path without what names objects.
func resource(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return path
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	if len(parts) > 1 {
		parts[1] = "*"
	}
	return strings.Join(parts, "/")
}

// tellRequests prints what was counted, the most frequent first.
func tellRequests() {
	requests.Lock()
	defer requests.Unlock()
	all := slices.SortedFunc(maps.Keys(requests.of), func(a, b string) int { return requests.of[b] - requests.of[a] })
	for _, one := range all {
		fmt.Printf("apitest: %6d %s\n", requests.of[one], one)
	}
}

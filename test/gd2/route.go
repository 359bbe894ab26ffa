package gd2

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"net/http"
	"path"
	"regexp"
	"strings"

	"quarry.storage/quarry/test/gd2/cluster"
)

//go:embed endpoints.json
var endpointList []byte

// endpoint is a path of the API, as the server lists it: without /v1.
type endpoint struct {
	Name     string `json:"name"`
	Text     string `json:"description"`
	Methods  string `json:"methods"`
	Path     string `json:"path"`
	Request  string `json:"request-type"`
	Response string `json:"response-type"`

	match *regexp.Regexp
	vars  []string
}

var endpoints = loadEndpoints()

var variable = regexp.MustCompile(`\{([a-z]+)(?::([^}]+))?\}`)

func loadEndpoints() []endpoint {
	var list []endpoint
	if err := json.Unmarshal(endpointList, &list); err != nil {
		panic(err)
	}
	for i := range list {
		e := &list[i]
		pattern := variable.ReplaceAllStringFunc(e.Path, func(v string) string {
			m := variable.FindStringSubmatch(v)
			e.vars = append(e.vars, m[1])
			if m[2] != "" {
				return "(" + m[2] + ")"
			}
			return "([^/]+)"
		})
		switch e.Path {
		case "/version", "/statedump", "/endpoints", "/ping":
		default:
			pattern = "/v1" + pattern
		}
		e.match = regexp.MustCompile("^" + pattern + "$")
	}
	return list
}

// input is a request with what its path and body say.
type input struct {
	*http.Request
	vars map[string]string
	body []byte
	call *cluster.Call
}

// decode reads the body as the server does: what follows the value, and fields that it does not know, are passed over. The latter are noted.
func (in input) decode(into any) error {
	if err := json.NewDecoder(bytes.NewReader(in.body)).Decode(into); err != nil {
		return err
	}
	strict := json.NewDecoder(bytes.NewReader(in.body))
	strict.DisallowUnknownFields()
	if err := strict.Decode(into); err != nil {
		in.call.Strange("%s %s: %s", in.Method, in.URL.Path, err)
	}
	return nil
}

// parse is decode with the server's usual words.
func (in input) parse(into any) *cluster.Failure {
	if in.decode(into) != nil {
		return cluster.Fail(http.StatusBadRequest, "unable to parse the request")
	}
	return nil
}

type handler func(c *cluster.Call, in input) answer

// route finds the handler of a request: by the decoded path, and the first that matches.
func route(c *cluster.Call, r *http.Request, body []byte) answer {
	clean := path.Clean(r.URL.Path)
	if strings.HasSuffix(r.URL.Path, "/") && clean != "/" {
		clean += "/"
	}
	if clean != r.URL.Path {
		return answer{status: http.StatusMovedPermanently, location: clean}
	}
	known := false
	for _, e := range endpoints {
		m := e.match.FindStringSubmatch(r.URL.Path)
		if m == nil {
			continue
		}
		known = true
		if e.Methods != r.Method {
			continue
		}
		in := input{Request: r, vars: map[string]string{}, body: body, call: c}
		for i, v := range e.vars {
			in.vars[v] = m[i+1]
		}
		h := handlers[e.Methods+" "+e.Path]
		if h == nil {
			c.Strange("%s %s: the stand-in does not serve it", r.Method, r.URL.Path)
			return answer{status: http.StatusNotImplemented}
		}
		return h(c, in)
	}
	if known {
		return empty(http.StatusMethodNotAllowed)
	}
	c.Strange("%s %s: no such path", r.Method, r.URL.Path)
	return answer{status: http.StatusNotFound, text: "404 page not found\n", kind: "text/plain; charset=utf-8"}
}

func encode(v any) string {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		panic(err)
	}
	return b.String()
}

package recorded

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/test/gd2/cluster"
)

// eScript is three servers that keep the store themselves.
func eScript(t *testing.T) *script {
	s := &script{stage: newStage(t, recordedAt, cluster.Config{Embedded: true, Lease: 25300 * time.Millisecond}), runs: []string{"e"}}
	s.server(1, "334768da-4c8a-46d8-84b0-5361579046ed", "", nil).Start()
	s.server(2, "", "", nil).Start()
	s.server(3, "", "", nil).Start()
	s.server(4, "", "", nil)
	came := func(name string, want bool) error {
		if up := s.node(name).Start(); up != want {
			return fmt.Errorf("%s came up: %v, recorded %v", name, up, want)
		}
		return nil
	}
	members := func(r recording) error {
		var ours []string
		s.world.Do(func() { ours = s.node("gd1").Cluster().Members() })
		return s.sameIDs(uuidPattern.FindAllString(field[string](r, "members"), -1), ours)
	}
	s.before = map[string]func(){"e015": func() { s.kill("gd3", true) }}
	s.observe = map[string]func(recording) error{
		"e003": func(recording) error { s.node("gd1").Stop(); return came("gd1", true) },
		"e008": members,
		"e012": members,
		"e016": func(r recording) error {
			for range 40 {
				s.pass(time.Second)
			}
			return about(s.offline["gd3"].Sub(s.ended["gd3"]), r.Seconds)
		},
		"e018": func(recording) error { return came("gd3", true) },
		"e020": func(recording) error { s.kill("gd2", true); s.kill("gd3", true); return nil },
		"e030": func(recording) error { return came("gd2", false) },
		"e032": func(recording) error {
			s.node("gd1").Stop()
			return errors.Join(came("gd1", false), came("gd2", false), came("gd3", false))
		},
	}
	return s
}

// kScript is two servers whose store stops answering.
func kScript(t *testing.T) *script {
	s := &script{stage: newStage(t, recordedAt, cluster.Config{}), runs: []string{"k"}}
	s.server(1, "59a1c387-c76c-431f-8979-a281b1380213", "", nil).Start()
	s.server(2, "", "", nil).Start()
	s.next = []string{"dd59f754-e901-4f09-89db-7198fb32ef9f"}
	s.do("gd1", "POST /v1/peers", `{"addresses":["10.98.0.2"]}`)
	s.do("gd1", "POST /v1/devices/"+s.peer("gd1"), `{"device":"/var/lib/gd2/gd1/dev/d1","provisioner":"loop"}`)
	s.do("gd1", "POST /v1/volumes", `{"name":"v1","flags":{"create-brick-dir":true},"subvols":[{"type":"distribute","bricks":[{"peerid":"`+s.peer("gd1")+`","path":"/var/lib/gd2/gd1/dev/d1/b"}]}]}`)
	s.before = map[string]func(){"k028": func() { s.world.FreezeStore(); s.pass(time.Second); s.world.ThawStore() }}
	s.observe = map[string]func(recording) error{
		"k001": func(recording) error { s.world.FreezeStore(); return nil },
		"k019": func(recording) error { s.world.ThawStore("gd1"); s.settle(); return nil },
		"k021": func(r recording) error {
			online := func() (all bool) {
				s.world.Do(func() {
					all = s.node("gd1").Cluster().Alive(s.node("gd1").ID()) && s.node("gd1").Cluster().Alive(s.node("gd2").ID())
				})
				return all
			}
			if online() {
				return fmt.Errorf("they were online all the time")
			}
			s.pass(time.Duration(r.Seconds * float64(time.Second)))
			if !online() {
				return fmt.Errorf("they are not online")
			}
			return nil
		},
	}
	return s
}

// qScript is a server that is killed and comes back at once.
func qScript(t *testing.T) *script {
	s := &script{stage: newStage(t, recordedAt, cluster.Config{}), runs: []string{"q"}}
	s.server(1, "9562dcc7-43a4-4ce8-8a33-0b34ad9a86c3", "", nil).Start()
	s.server(2, "", "", nil).Start()
	s.before = map[string]func(){"q001": func() {
		for _, r := range load(t, "q")[:1] {
			s.announce([]byte(strings.ReplaceAll(string(r.Body), "9562dcc7-43a4-4ce8-8a33-0b34ad9a86c3", "")))
		}
		s.do("gd1", "POST /v1/peers", `{"addresses":["10.98.0.2"]}`)
		s.kill("gd2", true)
		s.node("gd2").Start()
	}}
	s.observe = map[string]func(recording) error{
		"q002": func(r recording) error {
			if changes := field[[]any](r, "changes"); len(changes) != 1 {
				return fmt.Errorf("the recording has %d changes", len(changes))
			}
			pid := 0
			s.world.Do(func() { pid = s.node("gd2").PID() })
			for range 45 {
				s.pass(time.Second)
				still := false
				s.world.Do(func() { still = s.node("gd2").Cluster().Alive(s.node("gd2").ID()) && s.node("gd2").PID() == pid })
				if !still {
					return fmt.Errorf("it went offline")
				}
			}
			return nil
		},
		"q003": func(recording) error {
			s.node("gd2").Stop()
			s.world.Do(func() { s.node("gd2").StalePIDFile = true })
			if s.node("gd2").Start() {
				return fmt.Errorf("it came up")
			}
			return nil
		},
	}
	return s
}

const (
	secretA = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	secretB = "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100"
	secretD = "a text that somebody chose"
)

// signedWith are the keys of tokens that are not signed with that of the server.
var signedWith = map[string]string{
	"t024": "wrong", "t025": secretB, "t026": decoded(secretA), "t047": "wrong", "t055": secretA, "t056": secretB, "t057": secretD, "t058": "changed",
	"t059": secretD, "t060": secretD + "\n",
}

func decoded(s string) string {
	raw, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// tScript is servers that ask for tokens, and one that speaks TLS.
func tScript(t *testing.T) *script {
	s := &script{stage: newStage(t, recordedAt, cluster.Config{}), runs: []string{"t"}}
	ids := [][2]string{{}, {"b2a63514-38d6-4097-b4bb-398296b2cecc", "440ff96a-8bbc-411f-901b-8a5df8b92525"}}
	s.server(1, ids[1][0], ids[1][1], nil)
	for i := 2; i <= 4; i++ {
		s.server(i, "", "", nil)
	}
	for i, secret := range map[string]string{"gd1": secretA, "gd2": secretB, "gd4": secretD} {
		s.node(i).Secret = []byte(secret)
	}
	cert, roots := certificate(t)
	s.servers["gd3"].cert = cert
	for i := 1; i <= 4; i++ {
		s.node(fmt.Sprintf("gd%d", i)).Start()
	}
	restart := func(secret []byte) {
		s.node("gd4").Stop()
		s.world.Do(func() { s.node("gd4").Secret = secret })
		s.node("gd4").Start()
	}
	s.before = map[string]func(){
		"t059": func() { restart([]byte(secretD + "\n")) },
		"t061": func() { s.node("gd4").Stop(); s.node("gd4").Reset("", ""); restart([]byte(secretB)) },
		"t062": func() {
			s.node("gd4").Stop()
			s.node("gd4").Reset("", "")
			restart(nil)
			s.do("gd4", "POST /v1/volumes", `{"name":"nw","force":true,"subvols":[{"type":"distribute","bricks":[{"peerid":"`+s.peer("gd4")+`","path":"/var/lib/gd2/gd4/dev/d1/b"}]}]}`)
			s.world.Do(func() { s.node("gd4").FailBricks = true })
		},
	}
	s.observe = map[string]func(recording) error{
		"t001": func(r recording) error {
			if len(secretA) != field[int](r, "length") || !regexp.MustCompile(`^[0-9a-f]+$`).MatchString(secretA) || field[bool](r, "gd1_equals_gd2") {
				return fmt.Errorf("the secrets are not as recorded")
			}
			return nil
		},
		"t054": func(r recording) error {
			if field[bool](r, "gd1_equals_gd2") != (string(s.node("gd1").Secret) == string(s.node("gd2").Secret)) {
				return fmt.Errorf("the secrets are shared")
			}
			return nil
		},
	}
	s.clients = map[string]*http.Client{"t067": {Transport: plain{}}}
	for k, cfg := range map[string]*tls.Config{
		"t064": {RootCAs: roots}, "t065": {RootCAs: roots, MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12},
		"t066": {RootCAs: roots, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, "t068": {},
	} {
		s.clients[k] = &http.Client{Transport: &http.Transport{TLSClientConfig: cfg}}
	}
	s.headers = s.resign
	return s
}

// plain speaks HTTP without TLS, whatever the address says.
type plain struct{}

func (plain) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme = "http"
	return (&http.Transport{}).RoundTrip(r)
}

// resign signs a recorded token with the key of our server, or with the one that was wrong then. The paths of the recorded machine were others.
func (s *script) resign(r recording, method, target string, h map[string]string) string {
	scheme, text, ok := strings.Cut(h["Authorization"], " ")
	parts := strings.Split(strings.TrimSpace(text), ".")
	if !ok || len(parts) != 3 {
		return target
	}
	head, err1 := base64.RawURLEncoding.DecodeString(parts[0])
	body, err2 := base64.RawURLEncoding.DecodeString(parts[1])
	claims := map[string]any{}
	if err1 != nil || err2 != nil || json.Unmarshal(body, &claims) != nil {
		return target
	}
	if qsh, ok := claims["qsh"].(string); ok {
		claims["qsh"] = movedHash(method, target, qsh)
	}
	var alg struct {
		Alg string `json:"alg"`
	}
	if err := json.Unmarshal(head, &alg); err != nil {
		s.t.Fatal(err)
	}
	hashes := map[string]func() hash.Hash{"HS256": sha256.New, "HS512": sha512.New}
	if hashes[alg.Alg] == nil {
		return target
	}
	body, err := json.Marshal(claims)
	if err != nil {
		s.t.Fatal(err)
	}
	signed := parts[0] + "." + base64.RawURLEncoding.EncodeToString(body)
	key, other := signedWith[r.key()]
	if !other {
		key = map[string]string{"gd1": secretA, "gd2": secretB, "gd4": secretD}[r.Node]
	}
	mac := hmac.New(hashes[alg.Alg], []byte(key))
	mac.Write([]byte(signed))
	space := h["Authorization"][len(scheme) : len(h["Authorization"])-len(strings.TrimLeft(text, " "))]
	h["Authorization"] = scheme + space + signed + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	return target
}

// movedHash returns the hash of our path if the recorded one is the hash of the recorded path.
func movedHash(method, target, qsh string) string {
	sum := func(path string) string {
		s := sha256.Sum256([]byte(method + "&" + path))
		return hex.EncodeToString(s[:])
	}
	raw, _, _ := strings.Cut(target, "?")
	path, err := url.PathUnescape(raw)
	if err != nil {
		return qsh
	}
	old := strings.NewReplacer("/var/lib/gd2/", "/tmp/gd2run/", "var%2Flib%2Fgd2%2F", "tmp%2Fgd2run%2F")
	for _, p := range []string{path, raw} {
		if sum(old.Replace(p)) == qsh {
			return sum(p)
		}
	}
	return qsh
}

func certificate(t *testing.T) (*tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

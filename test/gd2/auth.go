package gd2

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"strings"
	"time"
)

// errPanics is a token over which the server's handler ends: it answers 500 without a word.
var errPanics = errors.New("the handler panics")

const user = "glustercli"

// authenticate checks the token of a request, in the order and with the words of the server.
func authenticate(r *http.Request, secret []byte, now time.Time) error {
	header := strings.TrimSpace(r.Header.Get("Authorization"))
	if header == "" {
		return errors.New("'Authorization' header is required")
	}
	parts := strings.Split(header, " ")
	if len(parts) != 2 || !strings.EqualFold(parts[0], "bearer") {
		return errors.New("'Authorization' header must be of the format - Bearer <TOKEN>")
	}
	segments := strings.Split(parts[1], ".")
	if len(segments) != 3 {
		return errors.New("token contains an invalid number of segments")
	}
	var head struct {
		Algorithm string `json:"alg"`
	}
	if err := segment(segments[0], &head); err != nil {
		return err
	}
	claims := map[string]any{}
	if err := segment(segments[1], &claims); err != nil {
		return err
	}
	if err := checkClaims(claims, head.Algorithm, r); err != nil {
		return err
	}
	// The signature is checked last, and its error outranks those of time.
	err := checkTimes(claims, now)
	if !signed(segments, head.Algorithm, secret) {
		return errors.New("signature is invalid")
	}
	return err
}

// segment decodes a part of a token.
func segment(text string, into any) error {
	if n := len(text) % 4; n > 0 {
		text += strings.Repeat("=", 4-n)
	}
	raw, err := base64.URLEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

var sizes = map[string]func() hash.Hash{"HS256": sha256.New, "HS384": sha512.New384, "HS512": sha512.New}

func checkClaims(claims map[string]any, algorithm string, r *http.Request) error {
	for _, name := range []string{"iss", "exp", "qsh"} {
		if _, ok := claims[name]; !ok {
			return fmt.Errorf("token missing %s Claim", name)
		}
	}
	if sizes[algorithm] == nil {
		return fmt.Errorf("unexpected signing method: %s", algorithm)
	}
	issuer, ok := claims["iss"].(string)
	if !ok {
		return errPanics
	}
	if issuer != user {
		return fmt.Errorf("invalid App ID: %s", issuer)
	}
	// The path is the decoded one, without the query.
	sum := sha256.Sum256([]byte(r.Method + "&" + r.URL.Path))
	if claims["qsh"] != hex.EncodeToString(sum[:]) {
		return errors.New("invalid qsh claim in token")
	}
	return nil
}

// checkTimes gives no leeway. A time that is 0 or no number is not checked.
func checkTimes(claims map[string]any, now time.Time) error {
	at := func(name string) (int64, bool) {
		v, ok := claims[name].(float64)
		return int64(v), ok && v != 0
	}
	var err error
	if t, ok := at("exp"); ok && now.Unix() > t {
		err = errors.New("Token is expired") //nolint:staticcheck // These are the words of the server.
	}
	if t, ok := at("iat"); ok && now.Unix() < t {
		err = errors.New("Token used before issued") //nolint:staticcheck // These are the words of the server.
	}
	if t, ok := at("nbf"); ok && now.Unix() < t {
		err = errors.New("Token is not valid yet") //nolint:staticcheck // These are the words of the server.
	}
	return err
}

func signed(segments []string, algorithm string, secret []byte) bool {
	mac := hmac.New(sizes[algorithm], secret)
	mac.Write([]byte(segments[0] + "." + segments[1]))
	sum, err := base64.RawURLEncoding.DecodeString(segments[2])
	return err == nil && hmac.Equal(sum, mac.Sum(nil))
}

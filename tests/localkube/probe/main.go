// Command probe is what the pods of localkube's tests run: it looks at the cluster from the inside, and answers over HTTP.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

const patience = 3 * time.Second

func main() {
	hostname, _ := os.Hostname()
	// Another run is another life.
	identity := map[string]string{"host": hostname, "life": rand.Text()}
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { answer(w, identity, nil) })
	http.HandleFunc("/resolve", resolve)
	http.HandleFunc("/get", get)
	http.HandleFunc("/read", read)
	http.HandleFunc("/write", write)
	panic(http.ListenAndServe(":8080", nil))
}

func resolve(w http.ResponseWriter, request *http.Request) {
	ctx, cancel := context.WithTimeout(request.Context(), patience)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupHost(ctx, request.FormValue("name"))
	answer(w, addresses, err)
}

func get(w http.ResponseWriter, request *http.Request) {
	client := http.Client{Timeout: patience}
	response, err := client.Get(request.FormValue("url"))
	if err != nil {
		answer(w, nil, err)
		return
	}
	defer response.Body.Close()
	var found any
	err = json.NewDecoder(response.Body).Decode(&found)
	answer(w, found, err)
}

func read(w http.ResponseWriter, request *http.Request) {
	content, err := os.ReadFile(request.FormValue("path"))
	answer(w, string(content), err)
}

func write(w http.ResponseWriter, request *http.Request) {
	err := os.WriteFile(request.FormValue("path"), []byte(request.FormValue("text")), 0o644)
	answer(w, "", err)
}

func answer(w http.ResponseWriter, found any, err error) {
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, err.Error())
		return
	}
	_ = json.NewEncoder(w).Encode(found)
}

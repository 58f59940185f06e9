// A client of Dray in Go without any library: it sends, receives and resumes over HTTP.
//
//	client send URL TOKEN QUEUE KEY < body
//	client receive URL TOKEN QUEUE > body
//	client upload URL TOKEN QUEUE FILE INTERRUPT_AT
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
)

type client struct{ base, token string }

func main() {
	if len(os.Args) < 5 {
		fail(errors.New("usage: client send|receive|upload URL TOKEN QUEUE ..."))
	}
	dray := client{os.Args[2], os.Args[3]}
	queue := os.Args[4]
	var err error
	switch os.Args[1] {
	case "send":
		err = dray.send(queue, os.Args[5])
	case "receive":
		err = dray.receive(queue)
	case "upload":
		at, _ := strconv.ParseInt(os.Args[6], 10, 64)
		err = dray.upload(queue, os.Args[5], at)
	}
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// do asks one thing; an answer that tells of a problem is an error with its sentence.
func (c client) do(method, path string, body io.Reader, headers map[string]string) (*http.Response, error) {
	request, err := http.NewRequest(method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode >= 400 {
		defer answer.Body.Close()
		var problem struct{ Code, Detail string }
		json.NewDecoder(answer.Body).Decode(&problem)
		return nil, fmt.Errorf("%d %s: %s", answer.StatusCode, problem.Code, problem.Detail)
	}
	return answer, nil
}

// send sends the standard input as one message, twice with the same key: it is sent once.
func (c client) send(queue, key string) error {
	body, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	for range 2 {
		headers := map[string]string{"Idempotency-Key": key, "Dray-Label": "from Go"}
		answer, err := c.do("POST", "/v1/queues/"+queue+"/messages", bytes.NewReader(body), headers)
		if err != nil {
			return err
		}
		io.Copy(os.Stdout, answer.Body)
		fmt.Println()
		answer.Body.Close()
	}
	return nil
}

// receive writes the first message to the standard output, and settles it when that is done.
func (c client) receive(queue string) error {
	answer, err := c.do("POST", "/v1/queues/"+queue+"/receive?wait=20", nil, nil)
	if err != nil {
		return err
	}
	answer.Body.Close()
	lease := answer.Header.Get("Location")
	if lease == "" {
		return errors.New("no message came")
	}
	answer, err = c.do("GET", lease, nil, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err = io.Copy(os.Stdout, answer.Body); err != nil {
		return err
	}
	answer, err = c.do("DELETE", lease, nil, nil)
	if err == nil {
		answer.Body.Close()
	}
	return err
}

// upload sends a file by tus; its first request ends too early, and it goes on where HEAD says.
func (c client) upload(queue, path string, interruptAt int64) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	about, err := file.Stat()
	if err != nil {
		return err
	}
	length := strconv.FormatInt(about.Size(), 10)
	metadata := "queue " + base64.StdEncoding.EncodeToString([]byte(queue))
	answer, err := c.do("POST", "/v1/uploads", nil, map[string]string{
		"Tus-Resumable": "1.0.0", "Upload-Length": length, "Upload-Metadata": metadata})
	if err != nil {
		return err
	}
	answer.Body.Close()
	upload := answer.Header.Get("Location")
	// The request says that all comes, and its body breaks off.
	cut := io.MultiReader(io.LimitReader(file, interruptAt), broken{})
	if _, err = c.patch(upload, 0, cut); err == nil {
		return errors.New("the broken request was answered well")
	}
	for {
		answer, err = c.do("HEAD", upload, nil, map[string]string{"Tus-Resumable": "1.0.0"})
		if err != nil {
			return err
		}
		offset, err := strconv.ParseInt(answer.Header.Get("Upload-Offset"), 10, 64)
		if err != nil {
			return err
		}
		if offset == about.Size() {
			return nil
		}
		fmt.Println("goes on at", offset)
		rest := io.NewSectionReader(file, offset, about.Size()-offset)
		if status, err := c.patch(upload, offset, rest); err != nil && status != http.StatusLocked {
			return err
		}
	}
}

func (c client) patch(upload string, offset int64, body io.Reader) (int, error) {
	answer, err := c.do("PATCH", upload, body, map[string]string{
		"Tus-Resumable": "1.0.0", "Upload-Offset": strconv.FormatInt(offset, 10),
		"Content-Type": "application/offset+octet-stream"})
	if err != nil {
		var status int
		fmt.Sscanf(err.Error(), "%d", &status)
		return status, err
	}
	answer.Body.Close()
	return answer.StatusCode, nil
}

// broken fails as a network does.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the line broke") }

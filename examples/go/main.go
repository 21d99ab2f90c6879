// A node in Go, with the standard library alone: go run . [address]
// Put your models in the place of translate.
package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log"
	"math/rand"
	"os"
	"os/signal"
	"runtime"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	slots      = 2
	heartbeat  = 5 * time.Second
	remembered = 1000
)

// The scheduler does not want this credential again.
var dismissed = map[int]bool{4003: true, 4004: true, 4007: true}

type object = map[string]any

// job has the fields of job_assign that this node uses.
type job struct {
	Type       string `json:"type"`
	JobID      string `json:"job_id"`
	AttemptID  int    `json:"attempt_id"`
	SessionID  string `json:"session_id"`
	Index      int    `json:"utterance_index"`
	TraceID    string `json:"trace_id"`
	Audio      []byte `json:"audio"` // pcm16 or framed opus, 16 kHz, one channel
	SampleRate int    `json:"sample_rate"`
	// Of node_register_ack and error.
	NodeID  string `json:"node_id"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

type node struct {
	mutex   sync.Mutex
	socket  *webSocket
	id      string // given by the scheduler, and kept over reconnects
	bootID  string
	running map[string]bool
	taken   []string // the last attempts, because one may be assigned twice
	leaving bool
}

func translate(asked job) (heard, said string, speech []byte, err error) {
	seconds := float64(len(asked.Audio)) / 2 / float64(asked.SampleRate)
	heard = fmt.Sprintf("%.1f seconds of speech", seconds)
	return heard, strings.Replace(heard, "seconds of speech", "segundos de fala", 1), make([]byte, 3200), nil
}

func main() {
	address := "ws://127.0.0.1:5010"
	if told := os.Getenv("LINGUA_URL"); told != "" { // set by lingua conformance
		address = told
	}
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	address = strings.TrimSuffix(strings.TrimSuffix(address, "/"), "/ws/node")
	if !strings.HasPrefix(address, "ws://") && !strings.HasPrefix(address, "wss://") {
		fmt.Fprintf(os.Stderr, "%s is not an address; usage: go run . [ws://127.0.0.1:5010]\n", address)
		os.Exit(2)
	}
	// Go before 1.20 gives every process the same numbers without a seed.
	dice := rand.New(rand.NewSource(time.Now().UnixNano() ^ int64(os.Getpid())))
	n := &node{bootID: fmt.Sprintf("%x", dice.Int63()), running: map[string]bool{}}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-signals
		n.leave()
	}()
	// Connect, and again after a pause that grows up to 5 s, with jitter.
	pause := 200 * time.Millisecond
	for {
		wasRegistered, err := n.converse(address + "/ws/node")
		if n.isLeaving() {
			return
		}
		if end, ok := err.(closed); ok && dismissed[end.code] {
			log.Fatalf("the scheduler dismissed this node (%d); it needs another key", end.code)
		}
		if wasRegistered {
			pause = 200 * time.Millisecond
		}
		log.Printf("no connection to %s (%v); trying again. Start a scheduler with: lingua serve", address, err)
		time.Sleep(time.Duration(dice.Int63n(int64(pause))))
		if pause *= 2; pause > 5*time.Second {
			pause = 5 * time.Second
		}
	}
}

func (n *node) converse(address string) (wasRegistered bool, err error) {
	socket, err := dial(address, os.Getenv("LINGUA_KEY")) // where nodes need a key
	if err != nil {
		return false, err
	}
	defer socket.close()
	n.mutex.Lock()
	n.socket = socket
	n.mutex.Unlock()
	if err := n.register(); err != nil {
		return false, err
	}
	over := make(chan struct{})
	defer close(over)
	go n.keepBeating(over)
	for {
		text, err := socket.read()
		if err != nil {
			return wasRegistered, err
		}
		var message job
		if err := json.Unmarshal(text, &message); err != nil {
			log.Printf("unreadable frame: %v", err)
			continue
		}
		switch message.Type {
		case "node_register_ack":
			wasRegistered = true
			n.mutex.Lock()
			n.id = message.NodeID
			n.mutex.Unlock()
			log.Printf("registered as %s", message.NodeID)
			n.beat()
		case "job_assign":
			n.begin(message)
		case "error":
			log.Printf("the scheduler says %s: %s", message.Code, message.Message)
		}
	}
}

// begin takes the slot at once, so that a heartbeat does not forget the job.
func (n *node) begin(asked job) {
	n.mutex.Lock()
	isNew, isFull := n.remember(fmt.Sprintf("%s#%d", asked.JobID, asked.AttemptID)), len(n.running) >= slots
	if isNew && !isFull {
		n.running[asked.JobID] = true
	}
	n.mutex.Unlock()
	switch {
	case !isNew:
	case isFull:
		n.send(n.failure(asked, "NODE_OVERLOADED", "all slots are in use"))
	default:
		go n.work(asked)
	}
}

// remember tells whether an attempt is new; the mutex is held.
func (n *node) remember(attempt string) bool {
	for _, known := range n.taken {
		if known == attempt {
			return false
		}
	}
	if n.taken = append(n.taken, attempt); len(n.taken) > remembered {
		n.taken = n.taken[1:]
	}
	return true
}

func (n *node) result(asked job) object {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return object{
		"type": "job_result", "job_id": asked.JobID, "attempt_id": asked.AttemptID, "session_id": asked.SessionID,
		"utterance_index": asked.Index, "trace_id": asked.TraceID, "node_id": n.id, "success": true,
	}
}

func (n *node) failure(asked job, code, message string) object {
	result := n.result(asked)
	result["success"], result["error"] = false, object{"code": code, "message": message}
	return result
}

func (n *node) work(asked job) {
	result := n.result(asked)
	heard, said, speech, err := translate(asked)
	if err != nil {
		log.Printf("job %s failed: %v", asked.JobID, err) // your own log; the scheduler hears no details
		result = n.failure(asked, "PROCESSING_ERROR", "the engine failed")
	} else {
		result["text_asr"], result["text_translated"] = heard, said
		result["tts_audio"], result["tts_format"] = base64.StdEncoding.EncodeToString(speech), "pcm16"
	}
	n.mutex.Lock()
	delete(n.running, asked.JobID)
	isLast := n.leaving && len(n.running) == 0
	n.mutex.Unlock()
	n.send(result)
	if isLast {
		n.socket.close()
	}
}

func (n *node) register() error {
	message := n.portrait()
	message["type"], message["version"], message["platform"] = "node_register", "1.0.0", runtime.GOOS
	message["hardware"] = object{"cpu_cores": runtime.NumCPU(), "memory_gb": 0}
	message["installed_models"], message["features_supported"] = []any{}, object{}
	message["accept_public_jobs"], message["boot_id"] = !n.isLeaving(), n.bootID
	return n.send(message)
}

func (n *node) beat() {
	message := n.portrait()
	running := len(message["running_job_ids"].([]string))
	message["type"], message["timestamp"] = "node_heartbeat", time.Now().UnixMilli()
	message["resource_usage"] = object{"cpu_percent": 0, "mem_percent": 0, "running_jobs": running}
	n.send(message)
}

func (n *node) keepBeating(over chan struct{}) {
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-over:
			return
		case <-ticker.C:
			n.beat()
		}
	}
}

// portrait is what a registration and a heartbeat have in common.
func (n *node) portrait() object {
	var services, ready []object
	for _, kind := range []string{"asr", "semantic", "nmt", "tts"} {
		services = append(services, object{"service_id": "toy-" + kind, "type": kind, "device": "cpu", "status": "running"})
		ready = append(ready, object{"type": kind, "ready": true})
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	running := []string{}
	for id := range n.running {
		running = append(running, id)
	}
	sort.Strings(running)
	message := object{
		"installed_services": services, "capability_by_type": ready, "running_job_ids": running,
		"max_concurrent_jobs": slots, "heartbeat_interval_ms": heartbeat.Milliseconds(),
		"language_capabilities": object{
			"asr_languages": []string{"en"}, "semantic_languages": []string{"en"}, "tts_languages": []string{"pt"},
			"nmt_capabilities": [][]string{{"en", "pt"}},
		},
	}
	if n.id != "" {
		message["node_id"] = n.id
	}
	return message
}

func (n *node) send(message object) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	n.mutex.Lock()
	socket := n.socket
	n.mutex.Unlock()
	return socket.write(text)
}

// leave finishes what runs, and then closes the connection.
func (n *node) leave() {
	n.mutex.Lock()
	n.leaving = true
	socket, isIdle := n.socket, len(n.running) == 0
	n.mutex.Unlock()
	if socket == nil {
		os.Exit(0)
	}
	n.register()
	if isIdle {
		socket.close()
	}
}

func (n *node) isLeaving() bool {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.leaving
}

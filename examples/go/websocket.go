package main

import (
	"bufio"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// A WebSocket client (RFC 6455) that is enough for a node: text frames, pings, and a close. In a program of your own,
// use a library instead, such as github.com/coder/websocket.

const (
	opContinuation = 0x0
	opText         = 0x1
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xA
	maxMessage     = 64 << 20
	dialTimeout    = 10 * time.Second
)

// closed is how the scheduler ended the connection.
type closed struct{ code int }

func (c closed) Error() string { return fmt.Sprintf("closed with %d", c.code) }

func closedWith(payload []byte) error {
	if len(payload) < 2 {
		return io.EOF
	}
	return closed{int(binary.BigEndian.Uint16(payload))}
}

type webSocket struct {
	connection net.Conn
	reader     *bufio.Reader
	writing    sync.Mutex
}

func dial(address, bearer string) (*webSocket, error) {
	target, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	connection, err := open(target)
	if err != nil {
		return nil, err
	}
	key := make([]byte, 16)
	rand.Read(key)
	request := &http.Request{Method: "GET", URL: target, Host: target.Host, Header: http.Header{
		"Upgrade": {"websocket"}, "Connection": {"Upgrade"}, "Sec-Websocket-Version": {"13"},
		"Sec-Websocket-Key": {base64.StdEncoding.EncodeToString(key)},
	}}
	if bearer != "" {
		request.Header.Set("Authorization", "Bearer "+bearer)
	}
	connection.SetDeadline(time.Now().Add(dialTimeout))
	socket := &webSocket{connection: connection, reader: bufio.NewReader(connection)}
	if err := request.Write(connection); err != nil {
		connection.Close()
		return nil, err
	}
	response, err := http.ReadResponse(socket.reader, request)
	if err == nil && response.StatusCode != http.StatusSwitchingProtocols {
		err = fmt.Errorf("the scheduler answered %s", response.Status)
	}
	if err != nil {
		connection.Close()
		return nil, err
	}
	connection.SetDeadline(time.Time{})
	return socket, nil
}

func open(target *url.URL) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: dialTimeout}
	port := target.Port()
	if target.Scheme == "wss" {
		if port == "" {
			port = "443"
		}
		return tls.DialWithDialer(dialer, "tcp", net.JoinHostPort(target.Hostname(), port), nil)
	}
	if port == "" {
		port = "80"
	}
	return dialer.Dial("tcp", net.JoinHostPort(target.Hostname(), port))
}

// read returns the next text message; it answers pings on the way.
func (s *webSocket) read() ([]byte, error) {
	var message []byte
	for {
		isLast, code, payload, err := s.frame()
		if err != nil {
			return nil, err
		}
		switch code {
		case opText, opContinuation:
			message = append(message, payload...)
			if len(message) > maxMessage {
				return nil, errors.New("the message is too long")
			}
			if isLast {
				return message, nil
			}
		case opPing:
			if err := s.send(opPong, payload); err != nil {
				return nil, err
			}
		case opClose:
			s.send(opClose, payload)
			return nil, closedWith(payload)
		}
	}
}

func (s *webSocket) write(text []byte) error {
	return s.send(opText, text)
}

func (s *webSocket) close() {
	s.send(opClose, []byte{0x03, 0xE8}) // 1000, normal closure
	s.connection.Close()
}

func (s *webSocket) frame() (isLast bool, code byte, payload []byte, err error) {
	head := make([]byte, 2)
	if _, err = io.ReadFull(s.reader, head); err != nil {
		return
	}
	isLast, code = head[0]&0x80 != 0, head[0]&0x0F
	length := uint64(head[1] & 0x7F)
	if extended := map[uint64]int{126: 2, 127: 8}[length]; extended > 0 {
		more := make([]byte, 8)
		if _, err = io.ReadFull(s.reader, more[8-extended:]); err != nil {
			return
		}
		length = binary.BigEndian.Uint64(more)
	}
	if length > maxMessage {
		return false, 0, nil, errors.New("the frame is too long")
	}
	payload = make([]byte, length)
	_, err = io.ReadFull(s.reader, payload)
	return
}

// send masks the payload, as every client must.
func (s *webSocket) send(code byte, payload []byte) error {
	frame := []byte{0x80 | code}
	switch length := len(payload); {
	case length < 126:
		frame = append(frame, 0x80|byte(length))
	case length < 1<<16:
		frame = binary.BigEndian.AppendUint16(append(frame, 0x80|126), uint16(length))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, 0x80|127), uint64(length))
	}
	mask := make([]byte, 4)
	rand.Read(mask)
	frame = append(frame, mask...)
	for i, b := range payload {
		frame = append(frame, b^mask[i%4])
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := s.connection.Write(frame)
	return err
}

// Calls skills from another service with grpc-go, over TLS, with an API key.
//
//	client localhost:8000 --ca ca.pem --token-file reports.key --service-config service-config.json
//
// docs/service-to-service.md says how to make the stubs.
// Before version 1.40 of grpc, GRPC_GO_RETRY=on in the environment turns the retries of a service configuration on.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	// Reads healthCheckConfig of the service configuration.
	_ "google.golang.org/grpc/health"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	openskill "skills.example/openskill/v1"
)

// apiKey puts the key into each request. gRPC refuses to send it in plain text.
type apiKey string

func (key apiKey) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(key)}, nil
}

func (apiKey) RequireTransportSecurity() bool { return true }

// connect returns one connection for the whole program: it is safe to share, and connects again by itself.
func connect(address, ca, tokenFile, serviceConfig string) (*grpc.ClientConn, error) {
	certificates, err := credentials.NewClientTLSFromFile(ca, "")
	if err != nil {
		return nil, err
	}
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return nil, err
	}
	config, err := os.ReadFile(serviceConfig)
	if err != nil {
		return nil, err
	}
	return grpc.Dial(
		address,
		grpc.WithTransportCredentials(certificates),
		grpc.WithPerRPCCredentials(apiKey(strings.TrimSpace(string(token)))),
		grpc.WithDefaultServiceConfig(string(config)),
		// Finds out that a connection is dead, also while a call waits for its result.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second}),
	)
}

// within gives a call a deadline, which the gateway gets too, and the trace that it belongs to. A service has a trace already:
// pass on that of the request it is working for.
func within(timeout time.Duration) (context.Context, context.CancelFunc) {
	trace := fmt.Sprintf("00-%s-%s-01", random(16), random(8))
	return context.WithTimeout(metadata.AppendToOutgoingContext(context.Background(), "traceparent", trace), timeout)
}

func random(count int) string {
	bytes := make([]byte, count)
	if _, err := rand.Read(bytes); err != nil {
		log.Fatal(err)
	}
	return hex.EncodeToString(bytes)
}

type echo struct {
	Text   string `json:"text,omitempty"`
	Echoed string `json:"echoed,omitempty"`
}

func request(skill string, input interface{}) (*openskill.InvokeRequest, error) {
	text, err := json.Marshal(input)
	return &openskill.InvokeRequest{SkillId: skill, Arguments: &openskill.InvokeRequest_InputJson{InputJson: string(text)}}, err
}

// echoed reads a result. Errors of skills are results, and not statuses: a model can act on them.
func echoed(result *openskill.SkillResult) (string, error) {
	if problem := result.GetError(); problem != nil {
		return "", fmt.Errorf("%s: %s", problem.GetCode(), problem.GetMessage())
	}
	var data echo
	err := json.Unmarshal([]byte(result.GetDataJson()), &data)
	return data.Echoed, err
}

// callOne calls with a deadline. The key makes it safe that gRPC repeats the call, as the service configuration says.
func callOne(client openskill.SkillServiceClient) error {
	call, err := request("echo", echo{Text: "hello"})
	if err != nil {
		return err
	}
	call.IdempotencyKey = random(16)
	ctx, cancel := within(20 * time.Second)
	defer cancel()
	result, err := client.Invoke(ctx, call)
	if err != nil {
		return err
	}
	text, err := echoed(result)
	if err != nil {
		return err
	}
	fmt.Println("called:", text, "in trace", result.GetTraceId())
	return nil
}

// callMany makes several calls at once on one stream. Their results come as they end, in any order.
func callMany(client openskill.SkillServiceClient) error {
	ctx, cancel := within(20 * time.Second)
	defer cancel()
	stream, err := client.InvokeMany(ctx)
	if err != nil {
		return err
	}
	texts := map[string]string{}
	for number := 0; number < 3; number++ {
		id, text := fmt.Sprintf("call-%d", number), fmt.Sprintf("text %d", number)
		call, err := request("echo", echo{Text: text})
		if err != nil {
			return err
		}
		call.CallId, texts[id] = id, text
		if err := stream.Send(call); err != nil && err != io.EOF {
			return err
		}
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for {
		event, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if result := event.GetResult(); result != nil {
			text, err := echoed(result)
			if err != nil {
				return err
			}
			if text != texts[event.GetCallId()] {
				return fmt.Errorf("%s got %q", event.GetCallId(), text)
			}
			delete(texts, event.GetCallId())
			fmt.Println("one of many:", text)
		}
	}
	if len(texts) > 0 {
		return fmt.Errorf("without a result: %v", texts)
	}
	return nil
}

// cancelOne cancels a call that nobody waits for any more. The gateway ends the skill's process too.
func cancelOne(client openskill.SkillServiceClient, skill string) error {
	ctx, cancel := within(20 * time.Second)
	defer cancel()
	call, err := request(skill, struct{}{})
	if err != nil {
		return err
	}
	events, err := client.InvokeStream(ctx, call)
	if err != nil {
		return err
	}
	for {
		event, err := events.Recv()
		switch {
		case status.Code(err) == codes.Canceled:
			fmt.Println("cancelled:", skill)
			return nil
		case err != nil:
			return err
		case event.GetAccepted() != nil:
			cancel()
		}
	}
}

func run() error {
	if len(os.Args) < 2 {
		return fmt.Errorf("usage: client ADDRESS --ca FILE --token-file FILE --service-config FILE [--slow SKILL]")
	}
	flags := flag.NewFlagSet("client", flag.ExitOnError)
	ca := flags.String("ca", "", "file with the authorities of the gateway's certificate")
	tokenFile := flags.String("token-file", "", "file with an API key")
	serviceConfig := flags.String("service-config", "service-config.json", "the service configuration")
	slow := flags.String("slow", "", "a skill that takes long, to cancel a call of it")
	if err := flags.Parse(os.Args[2:]); err != nil {
		return err
	}
	connection, err := connect(os.Args[1], *ca, *tokenFile, *serviceConfig)
	if err != nil {
		return err
	}
	defer connection.Close()
	client := openskill.NewSkillServiceClient(connection)
	if err := callOne(client); err != nil {
		return err
	}
	if err := callMany(client); err != nil {
		return err
	}
	if *slow == "" {
		return nil
	}
	return cancelOne(client, *slow)
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

# Go builds for the other platforms here: nothing runs in an emulator.
ARG BUILDPLATFORM
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# What `weir version` shows: docker build --build-arg VERSION=v1.2.3, see make docker.
ARG VERSION COMMIT DATE
ARG TARGETOS TARGETARCH
# The image of envoyproxy/ratelimit has its program at /bin/ratelimit, and
# manifests call it there.
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags="-s -w -X main.release=$VERSION -X main.commit=$COMMIT -X main.date=$DATE" -o /image/bin/weir ./cmd/server && \
    ln -s weir /image/bin/ratelimit && \
    GOOS=$TARGETOS GOARCH=$TARGETARCH scripts/licenses.sh /image/licenses && \
    cp LICENSE /image/licenses && \
    install -D /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ca-certificates.crt && \
    cp -r config /image/config

# Nothing but the program, the licences of what it is linked with, the certificates
# for rediss://, and in /config, which is where the program looks by default, rules
# that others are mounted over. The program writes no file.
FROM scratch
COPY --from=build /image/ /
USER 65534:65534
# gRPC; HTTP; operators; metrics
EXPOSE 8081 8080 6070 9090
# No ENTRYPOINT, as in the image of envoyproxy/ratelimit: "command: /bin/ratelimit"
# and "docker run weir weir validate /config" both name the program.
CMD ["/bin/weir"]

# Go cross-compiles for other platforms, so nothing runs in an emulator.
ARG BUILDPLATFORM
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# `weir version` shows these: docker build --build-arg VERSION=v1.2.3, see make docker.
ARG VERSION COMMIT DATE
ARG TARGETOS TARGETARCH
# Manifests for the image of envoyproxy/ratelimit start its program as
# /bin/ratelimit.
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags="-s -w -X main.release=$VERSION -X main.commit=$COMMIT -X main.date=$DATE" -o /image/bin/weir ./cmd/server && \
    ln -s weir /image/bin/ratelimit && \
    GOOS=$TARGETOS GOARCH=$TARGETARCH scripts/licenses.sh /image/licenses && \
    cp LICENSE /image/licenses && \
    install -D /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ca-certificates.crt && \
    cp -r config /image/config

# The image contains only the program, the licences of its libraries, certificates for
# rediss://, and example rules in /config, the default directory. Mount your own rules
# over them. The program writes no files.
FROM scratch
COPY --from=build /image/ /
USER 65534:65534
# Ports: gRPC; HTTP; operators; metrics
EXPOSE 8081 8080 6070 9090
# No ENTRYPOINT, as in the image of envoyproxy/ratelimit: "command: /bin/ratelimit"
# and "docker run weir weir validate /config" both name the program.
CMD ["/bin/weir"]

import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import t from 'tap'
import { answerClientError, MAX_HEADER_BYTES } from './http-server.ts'

t.test('answers what is no request, or too large or too slow, in the shape of the contract', async (t) => {
  const server = createServer({
    maxHeaderSize: MAX_HEADER_BYTES, requestTimeout: 200, headersTimeout: 100, connectionsCheckingInterval: 50
  }, (_request, response) => response.end('fine'))
  server.on('clientError', answerClientError)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const send = async (text: string): Promise<string> => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    socket.write(text)
    return Buffer.concat(await socket.toArray() as Buffer[]).toString()
  }
  const shapeOf = (code: string): RegExp => new RegExp(`{"type":"invalid_request","code":"${code}","detail":"[^"]+","attr":null}$`)

  const long = `GET /?event_names=${'x'.repeat(60_000)} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`
  t.match(await send(long), /^HTTP\/1.1 200 /)
  const tooLong = await send(`GET /?event_names=${'x'.repeat(70_000)} HTTP/1.1\r\nhost: x\r\n\r\n`)
  t.match(tooLong, /^HTTP\/1.1 431 Request Header Fields Too Large\r\n/)
  t.match(tooLong, shapeOf('headers_too_large'))
  const noRequest = await send('hello\r\n\r\n')
  t.match(noRequest, /^HTTP\/1.1 400 /)
  t.match(noRequest, shapeOf('malformed_request'))
  const slow = await send('GET / HTTP/1.1\r\nhost: x\r\n')
  t.match(slow, /^HTTP\/1.1 408 /)
  t.match(slow, shapeOf('request_timeout'))
})

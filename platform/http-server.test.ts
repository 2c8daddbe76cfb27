import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { answerClientError, answerHalfClosed, closeUnusedConnections, discardRest, MAX_HEADER_BYTES } from './http-server.ts'

t.test('answers invalid, large and slow requests in the shape of the contract', async (t) => {
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

t.test('requests that arrived whole are answered before the bytes behind them', async (t) => {
  const server = createServer((request, response) => {
    request.resume()
    setTimeout(() => response.end(request.url), request.url === '/slow' ? 100 : 10)
  })
  server.on('clientError', answerClientError)
  answerHalfClosed(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  /** Statuses and bodies of the answers, in order. */
  const send = async (...parts: string[]): Promise<string[]> => {
    const socket = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1', allowHalfOpen: true })
    for (const part of parts) {
      if (part === 'END') socket.end()
      else socket.write(part)
      await delay(5)
    }
    const text = Buffer.concat(await socket.toArray() as Buffer[]).toString()
    socket.end()
    return [...text.matchAll(/HTTP\/1\.1 (\d+)[^]*?\r\n\r\n(\/(?:slow|b))?/g)].map(([, status, body]) => `${status} ${body ?? ''}`.trim())
  }
  const get = (path: string, headers = ''): string => `GET ${path} HTTP/1.1\r\nhost: x\r\n${headers}\r\n`
  const post = 'POST /slow HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}'

  t.same(await send(`${post}}}`), ['200 /slow', '400'])
  t.same(await send(`${post}\u0001\u0002garbage`, 'and more', 'and more'), ['200 /slow', '400'])
  t.same(await send(`${get('/slow')}${get('/b')}FOO / HTTP/9\r\n\r\n`), ['200 /slow', '200 /b', '400'])
  t.same(await send(`${get('/slow')}${get('/b')}GET /half`, 'END'), ['200 /slow', '200 /b', '400'])
  t.same(await send(get('/slow'), 'GET / HTTP/1.1\r\nbad header\r\n\r\n'), ['200 /slow', '400'])
  t.same(await send(get('/slow', 'connection: close\r\n') + get('/b')), ['200 /slow'], 'nothing follows the last one')
  t.same(await send('POST /slow HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nnonsense\r\n'), ['400'],
    'the broken request itself is not waited for')
  t.same(await send(`${get('/b')}POST /slow HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n`), ['200 /b', '400'])
})

t.test('what a client sends after its answer is read up to a limit, in bytes and in time', async (t) => {
  let limits = { bytes: 1e6, ms: 60_000 }
  const server = createServer((request, response) => {
    discardRest(request, limits)
    response.end('no')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const send = async (head: string, bytes: number): Promise<string> => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    const closed = new Promise((resolve) => socket.on('error', () => {}).once('close', resolve))
    socket.write(`POST / HTTP/1.1\r\nhost: x\r\n${head}\r\ncontent-length: 100000000\r\n\r\n`)
    const [answer] = await once(socket, 'data') as [Buffer]
    socket.write(Buffer.alloc(bytes))
    await closed
    return answer.toString()
  }

  for (const connection of ['close', 'keep-alive']) {
    limits = { bytes: 1e6, ms: 60_000 }
    t.match(await send(`connection: ${connection}`, 50e6), /^HTTP\/1\.1 200 /, `${connection}, too many bytes`)
    limits = { bytes: 1e9, ms: 50 }
    t.match(await send(`connection: ${connection}`, 1e6), /^HTTP\/1\.1 200 /, `${connection}, too slow`)
  }
})

t.test('a server that stops does not wait for connections on which nothing arrived', { timeout: 20_000 }, async (t) => {
  const server = createServer((_request, response) => { setTimeout(() => response.end('fine'), 200) })
  closeUnusedConnections(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const open = async (): Promise<Socket> => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    await Promise.all([once(socket, 'connect'), once(server, 'connection')])
    return socket
  }
  const [unused, busy] = [await open(), await open()]
  busy.write('GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n')
  await once(server, 'request')

  server.close()
  server.closeIdleConnections()

  const ended = once(server, 'close')
  t.equal((await unused.toArray()).length, 0)
  t.match(Buffer.concat(await busy.toArray() as Buffer[]).toString(), /^HTTP\/1.1 200 [^]*fine$/, 'a request is answered')
  await ended
})

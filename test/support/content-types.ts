/** What clients and proxies call JSON; all of them mean it. */
export const CONTENT_TYPES = [
  'application/json', 'application/json; charset=utf-8', 'Application/JSON;Charset="UTF-8"', 'application/json;', ' application/json ',
  'application/json, application/json', 'application/json; charset=utf-8, application/json', 'application/json charset=utf-8',
  'json', 'JSON; charset=utf-8', '', ' ', 'undefined', '*/*', 'text/plain', 'text/plain;charset=UTF-8', 'TEXT/PLAIN', 'text/json',
  'application/vnd.api+json', 'application/octet-stream', 'application/x-www-form-urlencoded', 'multipart/form-data',
  'multipart/form-data; boundary=x', 'text/html', 'application/javascript', '/', ';', ',', 'a b c', '"application/json"'
] as const

-- service_suspend: a node reports that a service is missing; for a while it gets no job that needs the service.
-- Debounce and rate limit are applied here, across all instances, because a node may report this for every job it gets.
-- Replies: suspended | debounced (a repeat of a recent report) | limited (too many reports) | gone (no such node)
-- include: clock
-- include: words
local sick        = KEYS[1]   -- zset node -> quarantined until, node service -> unavailable until
local owners      = KEYS[2]   -- hash node -> epoch instance connection features
local complaints  = KEYS[3]   -- zset complaint -> when it was taken, only those of the window
local node        = ARGV[1]
local complaint   = ARGV[2]   -- digest of service and version
local services    = ARGV[3]   -- kinds of service that are unavailable
local suspend_ms  = ARGV[4]
local debounce_ms = ARGV[5]
local window_ms   = ARGV[6]
local most        = ARGV[7]   -- complaints in a window
local now_ms      = ARGV[8]

if redis.call('HEXISTS', owners, node) == 0 then return {'gone'} end
local moment = clock(now_ms)
redis.call('ZREMRANGEBYSCORE', complaints, '-inf', moment - window_ms)
local last = redis.call('ZSCORE', complaints, complaint)
if last and moment - last < tonumber(debounce_ms) then return {'debounced'} end
if redis.call('ZCARD', complaints) >= tonumber(most) then return {'limited'} end
-- One that comes again counts again, so the earlier one stays under a name of its own.
if last then redis.call('ZADD', complaints, last, complaint .. ' ' .. last) end
redis.call('ZADD', complaints, moment, complaint)
redis.call('PEXPIRE', complaints, window_ms)
for _, service in ipairs(words(services)) do redis.call('ZADD', sick, moment + suspend_ms, node .. ' ' .. service) end
return {'suspended'}

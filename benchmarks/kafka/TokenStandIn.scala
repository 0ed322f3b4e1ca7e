// Replaces Spark's token provider for Kafka, which serves brokers with delegation tokens: the methods that Spark's Kafka source
// calls, for a broker on PLAINTEXT. Nothing here runs once per record.
package org.apache.spark.kafka010

import java.util.{HashMap, Map => JavaMap}

import org.apache.spark.SparkConf

class KafkaTokenClusterConf

object KafkaRedactionUtil {
  def redactParams(params: Seq[(String, Object)]): Seq[(String, String)] =
    params.map { case (name, value) => (name, String.valueOf(value)) }
}

object KafkaTokenUtil {
  def findMatchingTokenClusterConfig(conf: SparkConf, servers: String): Option[KafkaTokenClusterConf] = None
  def needTokenUpdate(params: JavaMap[String, Object], cluster: Option[KafkaTokenClusterConf]): Boolean = false
}

case class KafkaConfigUpdater(module: String, kafkaParams: Map[String, Object]) {
  private val settings = new HashMap[String, Object]()
  kafkaParams.foreach { case (name, value) => settings.put(name, value) }

  def set(name: String, value: Object): this.type = {
    settings.put(name, value)
    this
  }
  def setIfUnset(name: String, value: Object): this.type = {
    settings.putIfAbsent(name, value)
    this
  }
  def setAuthenticationConfigIfNeeded(): this.type = this
  def setAuthenticationConfigIfNeeded(cluster: Option[KafkaTokenClusterConf]): this.type = this
  def build(): JavaMap[String, Object] = settings
}
